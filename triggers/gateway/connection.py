"""Connections: how much a caller may send that is no body, and how long it may leave a connection without a request.

The parser has no limit of its own: a header or a trailer without end would fill the memory, and a caller who
says nothing would hold a connection for ever.
"""

import asyncio
from typing import Any

from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 * 1024
HEAD_TIMEOUT_S = 10.0

_PROBLEM = b'{"type":"about:blank","title":"Request Header Fields Too Large","status":431}'
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: application/problem+json\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_PROBLEM), _PROBLEM)
)


class BoundedProtocol(HttpToolsProtocol):
    _unused_bytes = 0  # since the parser last handed over a head or a piece of a body: it keeps all of them
    _head_timer: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    @override
    def data_received(self, data: bytes) -> None:
        self._unused_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._unused_bytes > MAX_HEAD_BYTES:
            self._refuse()
        elif self._head_timer is None and self._owes_nothing():
            # The server's own timer ended with these bytes: a piece of a head, or of a body that nobody wants.
            self._await_head()

    @override
    def on_headers_complete(self) -> None:
        self._unused_bytes = 0
        self._forget_timer()
        super().on_headers_complete()

    @override
    def on_body(self, body: bytes) -> None:
        self._unused_bytes = 0
        super().on_body(body)

    @override
    def on_message_complete(self) -> None:
        self._unused_bytes = 0
        self._forget_timer()  # of a body that came after its answer: the next head has a time of its own
        super().on_message_complete()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_timer()
        super().connection_lost(exc)

    def _owes_nothing(self) -> bool:
        """Every request so far is answered; while one is not, the time it takes is ours."""
        return self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr]  # None until a head

    def _refuse(self) -> None:
        if self._owes_nothing():  # else it would be read as the answer to the request before
            self.transport.write(_TOO_LARGE)
        self.transport.close()

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._give_up)

    def _give_up(self) -> None:
        self._head_timer = None
        self.transport.close()

    def _forget_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
