"""Events: what the expressions of a webhook or form see."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

# Credentials have no business in a run's input, not even by mistake.
_SECRET_WORDS = (
    "authorization",
    "cookie",
    "signature",
    "token",
    "secret",
    "password",
    "credential",
    "api-key",
    "apikey",
)


def decode_headers(request: Request) -> dict[str, str]:
    """Names in lower case; of a header that is given twice the first, as everywhere here. Starlette's own look at one
    goes through all of them."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(request.scope["headers"])}


def build_event(
    body: Any, request: Request, *, headers: Mapping[str, str] | None = None, secret_header: str | None = None
) -> Any:
    """An object with `_request` beside its own keys; any other JSON value as it is."""
    if not isinstance(body, dict):
        return body
    given = decode_headers(request) if headers is None else headers
    shown = {name: value for name, value in given.items() if _is_visible(name, secret_header)}
    query = dict(request.query_params) if request.scope["query_string"] else {}
    return {**body, "_request": {"headers": shown, "query": query}}


def _is_visible(header: str, secret_header: str | None) -> bool:
    if header == secret_header:
        return False
    for word in _SECRET_WORDS:  # noqa: SIM110 -- a generator for each header of each call costs more than the looks
        if word in header:
            return False
    return True
