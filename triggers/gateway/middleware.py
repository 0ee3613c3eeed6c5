"""Gateway middleware: drains bodies after a 413, and binds the caller's trace."""

import asyncio
import time
from http import HTTPStatus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from workers.tracing.tracing import IncomingRequest, bind_request

DRAIN_TIMEOUT_S = 2.0

TRACE_HEADER = b"traceparent"


class DrainMiddleware:
    """Sends a 413 at once, then discards what the caller still sends for 2 s.

    A socket that is closed with unread bytes is reset, and the reset can overtake the response.
    """

    def __init__(self, app: ASGIApp, *, timeout_s: float = DRAIN_TIMEOUT_S) -> None:
        self._app = app
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_too_large, has_more = False, True

        async def watched_receive() -> Message:
            nonlocal has_more
            message = await receive()
            has_more = message["type"] == "http.request" and message.get("more_body", False)
            return message

        async def send_and_drain(message: Message) -> None:
            nonlocal is_too_large
            if message["type"] == "http.response.start":
                is_too_large = message["status"] == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            elif is_too_large and has_more and not message.get("more_body", False):
                await send({**message, "more_body": True})
                await _drain(receive, self._timeout_s)
                message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        await self._app(scope, watched_receive, send_and_drain)


async def _drain(receive: Receive, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            while (message := await receive())["type"] == "http.request" and message.get("more_body", False):
                pass
    except TimeoutError:
        pass


class CallerTraceMiddleware:
    """Binds the traceparent header while tracing is on.

    It is parsed only for a run that is accepted.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        header = next((value for name, value in scope.get("headers", ()) if name == TRACE_HEADER), None)
        with bind_request(IncomingRequest(None if header is None else header.decode("latin-1"), time.time_ns())):
            await self._app(scope, receive, send)
