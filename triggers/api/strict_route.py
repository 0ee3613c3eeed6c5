"""Strict routes: unknown query parameters, such as misspelt filters, are errors."""

import difflib
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from triggers.api.api_problems import MAX_FIELD_ERRORS, invalid_fields

MAX_NAME_SHOWN = 200  # characters of an unknown name in the error


class StrictRoute(APIRoute):
    """A FastAPI route, which by itself ignores unknown parameters."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        known = frozenset(_query_parameter_names(self.dependant))

        async def handle_known(request: Request) -> Response:
            unknown = [name for name in dict.fromkeys(request.query_params) if name not in known]
            if unknown:
                raise invalid_fields(unknown_parameter_errors(unknown, known))
            return await handle(request)

        return handle_known


def unknown_parameter_errors(unknown: Sequence[str], known_names: Collection[str]) -> dict[str, str]:
    """Returns a sentence for each unknown parameter, by its name."""
    takes = f"this address takes {', '.join(sorted(known_names))}" if known_names else "this address takes none"
    errors: dict[str, str] = {}
    for name in unknown[:MAX_FIELD_ERRORS]:
        close = difflib.get_close_matches(name[:MAX_NAME_SHOWN].lower(), known_names, n=1, cutoff=0.75)
        hint = f"did you mean {close[0]}? " if close else ""
        errors[name[:MAX_NAME_SHOWN]] = f"is not a query parameter here; {hint}{takes}"
    return errors


def _query_parameter_names(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for dependency in dependant.dependencies:
        yield from _query_parameter_names(dependency)
