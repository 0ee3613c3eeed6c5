"""Connections: bounds the size and duration of each step of a request.

The server's parser has no limits: an endless head or trailer would fill the memory, and a silent caller would hold a
connection for ever. The server also starts a request once its head is complete. Here a request starts, and takes a
slot, once its body has arrived. Until then it costs a few KB, and is closed first when room is short.
"""

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from typing_extensions import override
from uvicorn import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.server import ServerState

from triggers.form.accept_header import is_page_requested
from triggers.form.form_page import problem_page
from triggers.gateway.connection_admission import ConnectionAdmission, QueueName, RequestSlot, WaitQueue, route_group
from triggers.gateway.gateway_metrics import CloseReason
from triggers.gateway.http_problems import ProblemError, problem_response, unavailable_problem
from triggers.gateway.plain_http import PlainHttpProtocol
from triggers.gateway.request_body import is_declared_too_large

MAX_HEAD_BYTES = 64 * 1024
# Each header is four objects: a head with 64 KB of empty headers takes 2 MB.
HEADER_OVERHEAD_BYTES = 128
# A pipelined request takes 2 KB of memory and only 18 bytes to send.
MAX_PIPELINED = 32
# A body slower than this waits without a slot; the request of a faster one starts while the body arrives.
MIN_BODY_BYTES_PER_S = 1024

_PROBLEM = b'{"type":"about:blank","title":"Request Header Fields Too Large","status":431}'
_HEAD_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: application/problem+json\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_PROBLEM), _PROBLEM)
)
_OVERLOADED = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
# Prepared bytes: in a flood many callers time out, and a response of the app takes five times as long.
_TIMEOUT_PROBLEM = (
    b'{"type":"about:blank","title":"Request Timeout","status":408,"detail":"the body did not arrive in time"}'
)
_BODY_TIMEOUT = (
    b"HTTP/1.1 408 Request Timeout\r\n"
    b"content-type: application/problem+json\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_TIMEOUT_PROBLEM), _TIMEOUT_PROBLEM)
)
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

Cycle = Any  # one request and its response: a class of the server that it does not export
App = Any  # an ASGI app: the types of the server and of Starlette do not fit each other


class RequestLimitError(Exception):
    """Stops the parser in the middle of its input; the connection is closed."""


class BoundedProtocol(PlainHttpProtocol):
    is_connected = False

    def __init__(
        self, config: Config, server_state: ServerState, admission: ConnectionAdmission, *, body_limit_bytes: int
    ) -> None:
        super().__init__(config, server_state, {})
        self._admission = admission
        self._timeouts = admission.timeouts
        self._body_limit_bytes = body_limit_bytes
        self._unused_bytes = 0  # kept by the parser since it last passed on a head or a part of a body
        self._headers_bytes = 0
        self._waiting_bytes = 0  # of the incomplete head or body
        self._queue: WaitQueue | None = None
        self._timer: asyncio.TimerHandle | None = None  # for the next head or body
        self._unread_timer: asyncio.TimerHandle | None = None
        self._unread_bytes = 0
        # The request that is held or served. The server's own `cycle` is the last one that the caller has sent.
        self._current: Cycle | None = None
        self._held_request: tuple[Cycle, App] | None = None  # a request that has not started, and its app
        self._slot: RequestSlot | None = None  # of a request that started while its body still arrives
        self._body_bytes = 0
        self._rated_bytes = 0
        self._body_deadline = 0.0

    @override
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.is_connected = True
        self._admission.mark_connected()
        self._await_head()

    @override
    def data_received(self, data: bytes) -> None:
        self._unused_bytes += len(data)
        self._count_waiting(len(data))
        super().data_received(data)
        if self.transport.is_closing():
            self._forget_request()
        elif self._unused_bytes > MAX_HEAD_BYTES:
            self._refuse_head()
        else:
            self._wait_for_rest()
            self._admission.limit_waiting_bytes()

    @override
    def on_message_begin(self) -> None:
        self._headers_bytes = 0
        super().on_message_begin()

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers_bytes += len(name) + len(value) + HEADER_OVERHEAD_BYTES
        if self._headers_bytes > MAX_HEAD_BYTES:
            raise RequestLimitError
        self._count_waiting(HEADER_OVERHEAD_BYTES)
        super().on_header(name, value)

    @override
    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= MAX_PIPELINED:
            raise RequestLimitError
        self._unused_bytes = 0
        self._forget_timer()
        self._body_bytes = 0
        super().on_headers_complete()

    @override
    def on_body(self, body: bytes) -> None:
        self._unused_bytes = 0
        self._body_bytes += len(body)
        if self._slot is not None:
            self._slot.add_bytes(len(body))
        super().on_body(body)

    @override
    def on_message_complete(self) -> None:
        if self.is_upgrade_ignored:
            return
        self._unused_bytes = self._waiting_bytes = 0
        self._forget_timer()  # of a body that came after its response: the next head has its own timeout
        super().on_message_complete()
        if self._slot is not None:
            self._slot.mark_complete()
            self._slot = None
        if self._held_request is not None:
            self._start_held_request()

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_fully_answered():
            self._clear_head()
        if self.transport.get_write_buffer_size():
            self._watch_reading()
        if self.transport.is_closing():
            self._wait_for_reader()
        else:
            self._wait_for_rest()

    @override
    def send_400_response(self, msg: str) -> None:
        if self._headers_bytes > MAX_HEAD_BYTES or len(self.pipeline) >= MAX_PIPELINED:
            self._refuse_head()
        else:
            super().send_400_response(msg)

    @override
    def timeout_keep_alive_handler(self) -> None:
        self._close("idle")

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reading()

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        if self._held_request is not None and not self._held_request[0].more_body:
            self._start_held_request()

    @override
    def shutdown(self) -> None:
        if self._held_request is not None:  # nothing was accepted: the caller retries at another gateway
            self._forget_request()
            self.transport.close()
        else:
            super().shutdown()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_request()
        if self._unread_timer is not None:
            self._unread_timer.cancel()
        self._admission.connections -= 1
        if self._current is not None:
            self._current.disconnected = True  # or its response would be written to a closed transport
        super().connection_lost(exc)

    def close_early(self, reason: CloseReason) -> None:
        """Closes this connection to make room.

        A caller that sent a head first gets 503 with Retry-After.
        """
        self._admission.metrics.count_closed(reason)
        if not self._is_fully_answered() and not self.cycle.response_started:
            self.transport.write(_OVERLOADED)
        self._forget_request()
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    # Requests: held until their body has arrived, then started in a slot of their route.

    @override
    def _start_asgi_task(self, cycle: Cycle, app: App) -> None:
        """Holds a request.

        The server calls this after a head, or when the previous response is complete.
        """
        self._current = cycle
        length = next((value for name, value in cycle.scope["headers"] if name == b"content-length"), b"")
        if cycle.more_body and is_declared_too_large(length.decode("latin-1"), self._body_limit_bytes):
            super()._start_asgi_task(cycle, app)  # refused at once, which takes no slot
            return
        self._held_request = cycle, app
        if not cycle.more_body:
            self._start_held_request()

    def _start_held_request(self) -> None:
        """Starts the held request, unless earlier responses are still unread."""
        if self._held_request is None or self.flow.write_paused:
            return
        (cycle, app), self._held_request = self._held_request, None
        self._forget_timer()
        route = route_group(cycle.scope["path"])
        if is_health_path(cycle.scope["path"]):
            super()._start_asgi_task(cycle, app)
            return
        slot = self._admission.slot_pools[route].try_acquire(self, self._body_bytes if cycle.more_body else None)
        if slot is None:
            self._admission.metrics.count_refused(route)
            super()._start_asgi_task(cycle, _problem_app(unavailable_problem("too many requests at once; try again")))
            return
        self._slot = slot if cycle.more_body else None
        super()._start_asgi_task(cycle, _with_slot(app, slot))

    def _wait_for_rest(self) -> None:
        """Updates queue and timer after each piece of data and each response."""
        if self._held_request is not None:
            self._wait_for_body(self._held_request[0])
        elif self._is_fully_answered():
            if self.timeout_keep_alive_task is not None:
                self._wait_in("idle")
            elif self._timer is None:
                # These bytes ended the server's own timer: a part of a head, or of a body that is not read.
                self._await_head()
        elif self.cycle.more_body and not self.pipeline:  # started, while its body still arrives
            self._wait_in(route_group(self.cycle.scope["path"]))
        else:
            self._wait_in(None)

    def _wait_for_body(self, cycle: Cycle) -> None:
        if not cycle.more_body:  # waits until the caller reads the previous responses
            self._wait_in("idle")
            return
        self._wait_in(route_group(cycle.scope["path"]))
        if cycle.waiting_for_100_continue:
            cycle.waiting_for_100_continue = False
            self.transport.write(_CONTINUE)
        if len(cycle.body) > HIGH_WATER_LIMIT:  # the server reads on only when the app reads
            self._start_held_request()
        elif self._timer is None:
            self._rated_bytes = 0
            self._body_deadline = self.loop.time() + self._timeouts.body_s
            self._timer = self.loop.call_later(self._timeouts.rate_interval_s, self._check_body_rate)

    def _check_body_rate(self) -> None:
        self._timer = None
        if self._held_request is None:
            return
        received, self._rated_bytes = self._body_bytes - self._rated_bytes, self._body_bytes
        if received >= self._timeouts.rate_interval_s * MIN_BODY_BYTES_PER_S:
            self._start_held_request()
        elif self.loop.time() < self._body_deadline:
            self._timer = self.loop.call_later(self._timeouts.rate_interval_s, self._check_body_rate)
        else:
            self.transport.write(_BODY_TIMEOUT)
            self._close("body_timeout")

    def _is_fully_answered(self) -> bool:
        """Returns whether no response is pending.

        While one is, the delay is not the caller's.
        """
        return self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr]  # None until a head

    def _clear_head(self) -> None:
        """Drops the last head, which the server would keep while the connection is idle."""
        if self.cycle.scope is self.scope:  # false when the next request has begun
            self.scope, self.headers, self.url = {}, [], b""  # type: ignore[typeddict-item]  # an empty scope
        self.cycle.scope = {}  # type: ignore[typeddict-item]  # as above

    def _forget_request(self) -> None:
        self._held_request = None
        self._forget_timer()
        self._wait_in(None)

    # Waiting: in one queue at most, and with one timer at most.

    def _wait_in(self, name: QueueName | None) -> None:
        queue = None if name is None else self._admission.queues[name]
        if queue is self._queue:
            return
        if self._queue is not None:
            self._queue.remove(self)
        self._queue = queue
        if queue is not None:
            queue.add(self, self._waiting_bytes)

    def _count_waiting(self, size_bytes: int) -> None:
        self._waiting_bytes += size_bytes
        if self._queue is not None:
            self._queue.grow(self, size_bytes)

    def _wait_for_reader(self) -> None:
        """Queues a closing connection, so that it can be aborted to make room."""
        self._wait_in("idle" if self.transport.get_write_buffer_size() else None)

    def _await_head(self) -> None:
        self._wait_in("head")
        self._timer = self.loop.call_later(self._timeouts.head_s, self._on_head_timeout)

    def _on_head_timeout(self) -> None:
        self._timer = None
        self._close("head_timeout")

    def _refuse_head(self) -> None:
        if self._is_fully_answered():  # or it would be read as the response to the previous request
            self.transport.write(_HEAD_TOO_LARGE)
        self._close("head_too_large")

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Closing: written bytes are sent as long as the caller reads them.

    def _close(self, reason: CloseReason) -> None:
        if self.transport.is_closing():
            return
        self._admission.metrics.count_closed(reason)
        self._forget_request()
        self.transport.close()
        self._wait_for_reader()
        if self.transport.get_write_buffer_size():
            self._watch_reading()

    def _watch_reading(self) -> None:
        if self._unread_timer is None:
            self._unread_bytes = self.transport.get_write_buffer_size()
            self._unread_timer = self.loop.call_later(self._timeouts.unread_s, self._check_reading)

    def _check_reading(self) -> None:
        self._unread_timer = None
        unread_bytes = self.transport.get_write_buffer_size()
        if unread_bytes >= self._unread_bytes > 0:
            self._admission.metrics.count_closed("unread_answer")
            self._forget_request()
            self.transport.abort()
        elif unread_bytes:
            self._watch_reading()


def is_health_path(path: str) -> bool:
    """Needs no slot: a monitor must not take a busy gateway for a dead one."""
    return path in ("/healthz", "/readyz", "/metrics")


def _with_slot(app: App, slot: RequestSlot) -> App:
    async def run_in_slot(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        finally:
            slot.release()

    return run_in_slot


def _problem_app(problem: ProblemError) -> App:
    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        is_page = scope["path"].startswith(("/forms/", "/console")) and is_page_requested(Request(scope))
        response: Response = problem_page(problem) if is_page else problem_response(problem)
        await response(scope, receive, send)

    return respond
