"""Connections: how large a request's head may be, and how long a caller may take over it.

The parser has no limit of its own: a header without end would fill the memory, and a caller who says nothing
would hold a connection for ever.
"""

import asyncio
from typing import Any

from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 * 1024
HEAD_TIMEOUT_S = 10.0

_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: application/problem+json\r\nconnection: close\r\ncontent-length: 77\r\n\r\n"
    b'{"type":"about:blank","title":"Request Header Fields Too Large","status":431}'
)


class BoundedProtocol(HttpToolsProtocol):
    _head_bytes = 0
    _in_head = True
    _head_timer: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    @override
    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_timer is None:  # the first bytes of a next request on this connection
                self._await_head()
        super().data_received(data)
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES:
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    @override
    def on_headers_complete(self) -> None:
        self._in_head, self._head_bytes = False, 0
        self._forget_timer()
        super().on_headers_complete()

    @override
    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = True  # whatever comes now belongs to the next request

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_timer()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._give_up)

    def _give_up(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.close()

    def _forget_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
