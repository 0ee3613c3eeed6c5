"""The server: uvicorn with an accept loop of its own, which stops before descriptors run out.

The loops' own servers accept whatever has queued up, in one go; with a low limit of descriptors that fails, and the
store's connections fail with it.
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

BACKLOG = 4_096  # what Linux allows by default
MAX_ACCEPTED_AT_ONCE = 32  # then others have their turn: callers that are served come before new ones
ACCEPT_PAUSE_S = 0.02


def raise_descriptor_limit() -> int:
    """Raises the soft limit of descriptors to the hard one; returns what holds then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):  # macOS has a limit of its own below an unlimited hard one
        hard = soft
    if hard == resource.RLIM_INFINITY:
        return 1_048_576
    return hard


def server_config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        ws="none",  # nothing here speaks WebSocket
        lifespan="off",  # serve() opens and closes what the app needs
        log_config=None,  # logging is the process's, not the server's
        access_log=False,  # metrics count requests; a line for each costs more than the answer
        server_header=False,
        proxy_headers=False,  # nothing depends on the caller's address or scheme
        timeout_keep_alive=15,  # senders deliver in bursts; an idle connection is not kept for longer
        timeout_graceful_shutdown=10,  # an insert gives up after as long; what is not durable then was not accepted
    )


class Acceptor:
    """Accepts connections of one listening socket while there is room for them."""

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
            if not self._admission.try_make_room(len(self._connecting)):
                self._pause()
                return
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError as error:  # no descriptors or memory: those that are open live on
                log.warning("accept_failed", extra={"error": str(error)})
                self._pause()
                return
            connection.setblocking(False)
            task = self._loop.create_task(self._connect(connection))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)
        self._is_paused = False

    async def _connect(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make_protocol, connection)
        except OSError:  # the caller is gone already
            connection.close()

    def _pause(self) -> None:
        """The kernel keeps new callers meanwhile; room comes with the next connection that ends."""
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
        """Leaves signals to us: uvicorn raises them again, before the store and wake-ups are closed."""
        yield

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        self.servers = []
        self._acceptors = [Acceptor(each, self._admission, self._make_protocol) for each in sockets or ()]
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
