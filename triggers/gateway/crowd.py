"""The crowd: at most so many requests at once; what is more is told to come back, and health still answers."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from triggers.form.accept_header import wants_page
from triggers.form.page import problem_page
from triggers.gateway.problems import problem_response, unavailable

MOST_REQUESTS = 1_000  # each may hold one body of 1 MiB: a gigabyte at worst
ALWAYS_ANSWERED = frozenset({"/healthz", "/readyz", "/metrics"})


class Crowd:
    def __init__(self, app: ASGIApp, most: int = MOST_REQUESTS) -> None:
        self._app = app
        self._most = most
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in ALWAYS_ANSWERED:
            await self._app(scope, receive, send)
            return
        if self._inside >= self._most:
            await _full(scope)(scope, receive, send)
            return
        self._inside += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._inside -= 1


def _full(scope: Scope) -> Response:
    problem = unavailable("too many requests at once; try again")
    is_for_people = scope["path"].startswith(("/forms/", "/console")) and wants_page(Request(scope))
    return problem_page(problem) if is_for_people else problem_response(problem)
