"""The gateway's server around an app of the test's, in a thread, on each event loop that users may have."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

import pytest
import uvloop
from starlette.types import Receive, Scope, Send

from triggers.gateway.connection_admission import (
    MAX_CONNECTIONS,
    SLOTS,
    ConnectionAdmission,
    ConnectionTimeouts,
    RouteGroup,
)
from triggers.gateway.gateway_metrics import GatewayMetrics
from triggers.gateway.gateway_role import bind_socket
from triggers.gateway.gateway_server import GatewayServer
from triggers.gateway.middleware import DrainMiddleware
from workers.setting_values import Address

MEGABYTE = 1_048_576
NewLoop = Callable[[], asyncio.AbstractEventLoop]
Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class HoldingApp:
    """By the end of the path: `read` is answered when its body is there, `held` when the test says so, `large` with
    more than a kernel keeps, `refused` with 413, and anything else at once."""

    def __init__(self) -> None:
        self.request_arrived = threading.Event()
        self.answer = threading.Event()
        self.paths: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.paths.append(scope["path"])
        size, name = 0, scope["path"].rpartition("/")[2]
        if name == "read":
            while (message := await receive())["type"] == "http.request":
                size += len(message["body"])
                if not message["more_body"]:
                    break
        elif name == "held":
            self.request_arrived.set()
            await asyncio.to_thread(self.answer.wait, 20)
        body = b"x" * (16 * MEGABYTE) if name == "large" else b"%d" % size
        headers = [(b"content-length", b"%d" % len(body))]
        status = 413 if name == "refused" else 200
        headers += [(b"connection", b"close")] if name == "refused" else []
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class ProtocolServer:
    def __init__(
        self, app: HoldingApp, address: tuple[str, int], metrics: GatewayMetrics, stop: Callable[[], None]
    ) -> None:
        self.app = app
        self.address = address
        self.stop = stop
        self._metrics = metrics

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Pair]:
        async with connect(self.address) as pair:
            yield pair

    def metric(self, name: str, **labels: str) -> float:
        return self._metrics.registry.get_sample_value(f"unattended_gateway_{name}", labels) or 0.0

    def waiting_for_body(self) -> float:
        return self.metric("connections", state="body")


@contextmanager
def serving_app(
    new_loop: NewLoop,
    *,
    max_connections: int = MAX_CONNECTIONS,
    places: Mapping[RouteGroup, int] = SLOTS,
    timeouts: ConnectionTimeouts | None = None,
) -> Iterator[ProtocolServer]:
    app, metrics = HoldingApp(), GatewayMetrics()
    with bind_socket(Address("127.0.0.1", 0)) as listener:
        admission = ConnectionAdmission(metrics, max_connections=max_connections, slots=places, timeouts=timeouts)
        serves = GatewayServer(DrainMiddleware(app), admission, body_limit_bytes=MEGABYTE)

        def run() -> None:
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(serves.serve(sockets=[listener]))

        thread = threading.Thread(target=run)
        thread.start()

        def stop() -> None:
            serves.should_exit = True
            thread.join(20)

        try:
            yield ProtocolServer(app, listener.getsockname(), metrics, stop)
        finally:
            app.answer.set()
            stop()


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def new_loop(request: pytest.FixtureRequest) -> NewLoop:
    made: NewLoop = request.param
    return made


@pytest.fixture
def server(new_loop: NewLoop) -> Iterator[ProtocolServer]:
    with serving_app(new_loop) as running:
        yield running


@asynccontextmanager
async def connect(address: tuple[str, int]) -> AsyncIterator[Pair]:
    reader, writer = await asyncio.open_connection(*address)
    try:
        yield reader, writer
    finally:
        writer.close()
        with_error = await asyncio.gather(writer.wait_closed(), return_exceptions=True)
        assert all(each is None or isinstance(each, OSError) for each in with_error)


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """What the server sent until it closed the connection."""
    said = b""
    async with asyncio.timeout(20):
        try:
            while part := await reader.read(65_536):
                said += part
        except ConnectionError:
            pass
    return said


async def read_answers(reader: asyncio.StreamReader, count: int = 1) -> list[bytes]:
    async with asyncio.timeout(20):
        found = []
        for _ in range(count):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            found.append(head.split(b" ")[1] + b" " + await reader.readexactly(int(length.split(b":")[1])))
        return found
