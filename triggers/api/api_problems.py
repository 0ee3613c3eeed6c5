"""API problems: errors as application/problem+json, with the invalid fields."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from triggers.gateway.http_problems import EXCEPTION_HANDLERS, ProblemError, on_http_exception, problem_response
from workers.control.change_result import RefusedError, RunNotFoundError
from workers.control.run_effects import WouldRepeatError
from workers.store.storable import NotStorableError

MAX_FIELD_ERRORS = 50
_SOURCES = frozenset({"body", "query", "path", "header"})


def invalid_fields(errors: dict[str, str]) -> ProblemError:
    """Builds a 422. `errors` has a sentence for each invalid field, by its name."""
    detail = "; ".join(f"{field}: {sentence}" for field, sentence in list(errors.items())[:5])
    return ProblemError(422, detail, members={"errors": errors})


def workflow_not_found(detail: str) -> ProblemError:
    return ProblemError(404, "workflow: " + detail, members={"errors": {"workflow": detail}})


def run_not_found() -> ProblemError:
    """Uses the same 404 for another app's run and for none."""
    return ProblemError(404, "there is no such run")


async def _on_invalid_request(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 -- FastAPI types each handler as one of Exception
    errors: dict[str, str] = {}
    for details in list(error.errors())[:MAX_FIELD_ERRORS]:
        errors.setdefault(_field_name(details["loc"]), _error_message(details))
    return problem_response(invalid_fields(errors))


def _field_name(location: Sequence[str | int]) -> str:
    """Names a field as its caller wrote it: `input.email`, `items[0]` or `body`."""
    parts = location[1:] if location and location[0] in _SOURCES else location
    if location and location[0] == "query":
        parts = parts[:1]  # a repeated parameter has no index
    name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")
    return name[:200] or (str(location[0]) if location else "body")


def _error_message(error: dict[str, Any]) -> str:
    expected = str(error.get("ctx", {}).get("expected", ""))
    sentences = {
        "missing": "is needed; send a JSON object" if tuple(error["loc"]) == ("body",) else "is needed",
        "extra_forbidden": "is not a field here; check the spelling or leave it out",
        "string_type": "must be text",
        "string_unicode": "must be text of valid Unicode",
        "int_type": "must be a whole number",
        "int_parsing": "must be a whole number",
        "bool_type": "must be true or false",
        "dict_type": "must be an object",
        "model_type": "must be an object",
        "model_attributes_type": "must be an object",
        "enum": f"must be one of {expected}",
        "literal_error": f"must be {expected}",
        "string_too_short": "is empty",
        "string_too_long": f"is longer than {error.get('ctx', {}).get('max_length')} characters",
    }
    return sentences.get(error["type"], str(error["msg"]).removeprefix("Value error, "))


async def _on_unknown_run(_request: Request, _error: Exception) -> Response:
    return problem_response(run_not_found())


async def _on_refused(_request: Request, error: Exception) -> Response:
    return problem_response(ProblemError(409, str(error)))


async def _on_would_repeat(_request: Request, error: Exception) -> Response:
    assert isinstance(error, WouldRepeatError)  # noqa: S101 -- FastAPI types each handler as one of Exception
    detail = f'{error}. {error.effects.about_keys()} If that is wanted, send "repeat_done": true'
    return problem_response(ProblemError(409, detail, members={"done": error.effects.as_json()}))


async def _on_not_storable(_request: Request, error: Exception) -> Response:
    """Splits the text, which begins with the field: `input.rows[3] is …`."""
    field, _, problem = str(error).partition(" ")
    return problem_response(invalid_fields({field: problem}))


def exception_handlers(routers: Sequence[APIRouter], *, prefix: str) -> Mapping[Any, Any]:
    addresses = list(_path_methods(routers, prefix))

    async def on_wrong_address(request: Request, error: Exception) -> Response:
        """Lists all methods of an address: the router names those of one route only."""
        if isinstance(error, HTTPException) and error.status_code == 405:
            path = request.url.path
            methods = sorted(method for pattern, method in addresses if pattern.match(path))
            error = HTTPException(405, headers={"allow": ", ".join(methods)})
        return await on_http_exception(request, error)

    return {**_HANDLERS, HTTPException: on_wrong_address}


def _path_methods(routers: Sequence[APIRouter], prefix: str) -> Iterator[tuple[re.Pattern[str], str]]:
    for router in routers:
        for route in router.routes:
            if isinstance(route, APIRoute):
                pattern = compile_path(prefix + route.path)[0]
                yield from ((pattern, method) for method in route.methods or ())


_HANDLERS: Mapping[Any, Any] = {
    **EXCEPTION_HANDLERS,
    RequestValidationError: _on_invalid_request,
    RunNotFoundError: _on_unknown_run,
    RefusedError: _on_refused,
    WouldRepeatError: _on_would_repeat,
    NotStorableError: _on_not_storable,
}
