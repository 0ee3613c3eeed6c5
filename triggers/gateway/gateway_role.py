"""The gateway role: binds the port, and serves until SIGTERM or SIGINT."""

import asyncio
import errno
import gc
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.routing import BaseRoute

from triggers.gateway.connection_admission import ConnectionAdmission, max_connections_for
from triggers.gateway.gateway_app import create_app
from triggers.gateway.gateway_metrics import GatewayMetrics
from triggers.gateway.gateway_server import BACKLOG, GatewayServer, raise_descriptor_limit
from triggers.register.trigger_stats import TriggerStats
from triggers.role_context import RoleContext, open_role_context
from triggers.service_loop import handle_stop_signals
from workers.setting_values import Address
from workers.settings import Settings, SettingsError

log = logging.getLogger(__name__)

ExtraRoutes = Callable[[RoleContext], Sequence[BaseRoute]]


def _no_routes(_context: RoleContext) -> Sequence[BaseRoute]:
    return ()


async def serve(settings: Settings, extra_routes: ExtraRoutes = _no_routes) -> None:
    """Returns after SIGTERM or SIGINT, when open requests are answered.

    `settings` has both server addresses.
    """
    # The parser logs each form that it cannot read, and any caller could flood the log with them.
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
    descriptors = raise_descriptor_limit()
    with bind_socket(settings.listen) as listener:
        async with open_role_context(settings, role="gateway") as context:
            metrics = GatewayMetrics()
            app = create_app(context, extra_routes(context), metrics=metrics)
            admission = ConnectionAdmission(metrics, max_connections=max_connections_for(descriptors))
            server = GatewayServer(app, admission, body_limit_bytes=settings.body_limit_bytes)
            # What is loaded by now stays loaded: a full collection would block all responses for 0.1 s.
            gc.collect()
            gc.freeze()
            host, port = listener.getsockname()[:2]
            with _exit_on_signals(server):
                log.info("gateway_ready", extra={"address": str(Address(host, port))})
                async with _write_stats_periodically(context.stats):
                    await server.serve(sockets=[listener])
    log.info("gateway_stopped")


@asynccontextmanager
async def _write_stats_periodically(stats: TriggerStats) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(stats.write_periodically(stop), name="tally")
        yield
        stop.set()


def run(settings: Settings, extra_routes: ExtraRoutes = _no_routes) -> None:
    """Runs serve(), on uvloop where it is installed: half the CPU of a call."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve(settings, extra_routes))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        from uvloop import new_event_loop
    except ImportError:  # not available for this platform
        return None
    return new_event_loop


@contextmanager
def bind_socket(address: Address) -> Iterator[socket.socket]:
    """Binds before anything else, so that a taken port leaves nothing open."""
    try:
        family, _, _, _, endpoint = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(endpoint[:2], family=family, backlog=BACKLOG)
        # Connections inherit it. Without it the body of each response waits 40 ms until its head is acknowledged:
        # asyncio sets it only on sockets that name their protocol, which these do not.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise SettingsError(_bind_error(address, error)) from None
    try:
        yield listener
    finally:
        listener.close()


def _bind_error(address: Address, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{address} is taken by another process; stop it or set UNATTENDED_LISTEN"
    return f"{address} cannot be listened on ({error.strerror or error}); set UNATTENDED_LISTEN"


@contextmanager
def _exit_on_signals(server: uvicorn.Server) -> Iterator[None]:
    def exit_server() -> None:
        server.force_exit = server.should_exit  # the second signal: do not wait for open requests
        server.should_exit = True

    with handle_stop_signals(exit_server):
        yield
