"""The gateway server: uvicorn with an accept loop that keeps descriptors free.

The server of the event loop accepts all queued connections at once. With a low descriptor limit that fails, and the
store's connections fail with it. This loop pauses before that.
"""

import asyncio
import logging
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp
from typing_extensions import override

from triggers.gateway.connection import BoundedProtocol
from triggers.gateway.connection_admission import ConnectionAdmission

log = logging.getLogger(__name__)

BACKLOG = 4_096  # Linux's default limit
MAX_ACCEPTED_AT_ONCE = 32  # then open requests go on before further connections are accepted
ACCEPT_PAUSE_S = 0.02


def raise_descriptor_limit() -> int:
    """Raises the soft descriptor limit to the hard one, and returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):  # macOS has its own limit below an unlimited hard one
        hard = soft
    if hard == resource.RLIM_INFINITY:
        return 1_048_576
    return hard


def server_config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        ws="none",  # no route uses WebSocket
        lifespan="off",  # serve() opens and closes what the app needs
        log_config=None,  # the process configures logging
        access_log=False,  # metrics count requests; a log line costs more than the response
        server_header=False,
        proxy_headers=False,  # no code reads the caller's address or scheme
        timeout_keep_alive=15,  # senders deliver in bursts
        timeout_graceful_shutdown=10,  # as long as an insert may take; later nothing is accepted any more
    )


class Acceptor:
    """Accepts the connections of one listening socket while admission has room."""

    def __init__(
        self, listener: socket.socket, admission: ConnectionAdmission, make_protocol: Callable[[], BoundedProtocol]
    ) -> None:
        self._listener = listener
        self._admission = admission
        self._make_protocol = make_protocol
        self._loop = asyncio.get_running_loop()
        self._resume_timer: asyncio.TimerHandle | None = None
        self._connecting: set[asyncio.Task[None]] = set()
        self._is_paused = False

    def start(self) -> None:
        self._listener.setblocking(False)
        self._loop.add_reader(self._listener, self._accept)

    def stop(self) -> None:
        self._loop.remove_reader(self._listener)
        if self._resume_timer is not None:
            self._resume_timer.cancel()

    def _accept(self) -> None:
        for _ in range(MAX_ACCEPTED_AT_ONCE):
            if not self._admission.try_make_room():
                self._pause()
                return
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError as error:  # out of descriptors or memory: open connections go on
                log.warning("accept_failed", extra={"error": str(error)})
                self._pause()
                return
            connection.setblocking(False)
            self._admission.pending += 1
            task = self._loop.create_task(self._connect(connection))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)
        self._is_paused = False

    async def _connect(self, connection: socket.socket) -> None:
        protocol = self._make_protocol()
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, connection)
        except OSError:  # the caller has disconnected
            connection.close()
            if not protocol.is_connected:
                self._admission.pending -= 1

    def _pause(self) -> None:
        """Leaves new connections in the kernel's backlog until an open one ends."""
        if not self._is_paused:
            self._is_paused = True
            self._admission.metrics.count_accept_pause()
        self._loop.remove_reader(self._listener)
        self._resume_timer = self._loop.call_later(ACCEPT_PAUSE_S, self.start)


class GatewayServer(uvicorn.Server):
    def __init__(self, app: ASGIApp, admission: ConnectionAdmission, *, body_limit_bytes: int) -> None:
        super().__init__(server_config(app))
        self._admission = admission
        self._body_limit_bytes = body_limit_bytes
        self._acceptors: list[Acceptor] = []

    @contextmanager
    @override
    def capture_signals(self) -> Iterator[None]:
        """Captures none: uvicorn would raise them again before the store is closed."""
        yield

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        self.servers = []
        self._acceptors = [Acceptor(listener, self._admission, self._make_protocol) for listener in sockets or ()]
        for acceptor in self._acceptors:
            acceptor.start()
        self.started = True

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for acceptor in self._acceptors:
            acceptor.stop()
        await super().shutdown(sockets)

    def _make_protocol(self) -> BoundedProtocol:
        return BoundedProtocol(self.config, self.server_state, self._admission, body_limit_bytes=self._body_limit_bytes)
