"""The caller's trace: a request that says in which trace it is made goes on in it."""

import time

from starlette.types import ASGIApp, Receive, Scope, Send

from workers.tracing.tracing import IncomingRequest, bind_request

TRACE_HEADER = b"traceparent"


class CallerTraceMiddleware:
    """Only where traces are wanted. What the header says is read when a run is asked for: strangers never get there."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        said = next((value for name, value in scope.get("headers", ()) if name == TRACE_HEADER), None)
        with bind_request(IncomingRequest(None if said is None else said.decode("latin-1"), time.time_ns())):
            await self._app(scope, receive, send)
