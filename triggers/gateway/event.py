"""Events: what the expressions of a webhook or form see."""

from typing import Any

from starlette.requests import Request

# Credentials have no business in a run's input, not even by mistake.
_LEFT_OUT = frozenset({"authorization", "proxy-authorization", "cookie"})


def with_request(body: Any, request: Request) -> Any:
    """An object with `_request` beside its own keys; any other JSON value as it is."""
    if not isinstance(body, dict):
        return body
    headers = {
        name: value
        for name, value in request.headers.items()
        if name not in _LEFT_OUT and "signature" not in name and "token" not in name
    }
    return {**body, "_request": {"headers": headers, "query": dict(request.query_params)}}
