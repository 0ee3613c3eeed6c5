import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx2
import pytest

from workflows.chat.providers.connections import SmallPoolsTransport, pooled_client

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@dataclass
class CountingServer:
    url: str = ""
    open: set[asyncio.StreamWriter] = field(default_factory=set)
    accepted: int = 0
    waiting: int = 0
    max_waiting: int = 0
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self.open.add(writer)
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await self.count(1)
                await self.go_on.wait()
                await self.count(-1)
                writer.write(ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self.open.discard(writer)
            await self.count(0)

    async def count(self, step: int) -> None:
        async with self.changed:
            self.waiting += step
            self.max_waiting = max(self.max_waiting, self.waiting)
            self.changed.notify_all()

    async def wait_for_waiting(self, number: int) -> None:
        async with self.changed:
            await self.changed.wait_for(lambda: self.waiting == number)

    async def wait_for_open(self, number: int) -> None:
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.open) == number)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@asynccontextmanager
async def serving() -> AsyncIterator[CountingServer]:
    told = CountingServer()
    server = await asyncio.start_server(told.serve, "127.0.0.1", 0, backlog=512)
    told.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    try:
        async with asyncio.timeout(20):
            yield told
            await told.wait_for_open(0)  # every test leaves no connection behind
    finally:
        server.close()
        await server.wait_closed()


async def test_calls_one_after_another_use_one_connection() -> None:
    async with serving() as server, pooled_client(5) as client:
        server.go_on.set()

        for _ in range(20):
            assert (await client.get(server.url)).text == "ok"

        assert server.accepted == 1
        await client.aclose()


async def test_over_a_hundred_calls_wait_at_once_and_reuse_connections() -> None:
    async with serving() as server:
        client = pooled_client(5)
        calls = [asyncio.create_task(client.get(server.url)) for _ in range(150)]
        await server.wait_for_waiting(150)

        server.go_on.set()
        first = await asyncio.gather(*calls)
        again = await asyncio.gather(*(client.get(server.url) for _ in range(150)))

        assert {answer.text for answer in (*first, *again)} == {"ok"}
        assert server.max_waiting == 150
        assert server.accepted == 150
        await client.aclose()


async def test_closing_leaves_no_connection_open_and_takes_no_further_call() -> None:
    async with serving() as server:
        server.go_on.set()
        client = pooled_client(5)
        await asyncio.gather(*(client.get(server.url) for _ in range(40)))
        assert len(server.open) == 40

        await client.aclose()
        await server.wait_for_open(0)

        with pytest.raises(RuntimeError, match="closed"):
            await client.get(server.url)


async def test_a_pool_fills_before_the_next_opens_and_cancelling_frees_a_slot() -> None:
    async with serving() as server:
        pools = SmallPoolsTransport(pool_size=2, max_pools=2)
        client = httpx2.AsyncClient(transport=pools, timeout=5)
        calls = [asyncio.create_task(client.get(server.url)) for _ in range(4)]
        await server.wait_for_waiting(4)

        waits = asyncio.create_task(client.get(server.url))  # both pools are full
        await asyncio.sleep(0)
        calls[0].cancel()
        await asyncio.gather(calls[0], return_exceptions=True)
        await server.wait_for_open(4)  # the waiting one got the place of the cancelled one
        server.go_on.set()

        assert (await waits).text == "ok"
        assert [answer.text for answer in await asyncio.gather(*calls[1:])] == ["ok"] * 3
        assert server.max_waiting <= 5
        assert [pool.busy for pool in pools._pools] == [0, 0]
        await client.aclose()


async def test_a_streamed_answer_keeps_its_place_until_it_is_closed() -> None:
    async with serving() as server:
        server.go_on.set()
        pools = SmallPoolsTransport(pool_size=1, max_pools=1)
        client = httpx2.AsyncClient(transport=pools, timeout=5)

        async with client.stream("GET", server.url) as answer:
            assert pools._pools[0].busy == 1
            assert [part async for part in answer.aiter_bytes()] == [b"ok"]
            await answer.aclose()

        assert pools._pools[0].busy == 0
        await client.aclose()


async def test_idle_connections_are_closed_without_another_call() -> None:
    async with serving() as server:
        server.go_on.set()
        client = httpx2.AsyncClient(transport=SmallPoolsTransport(pool_size=4, idle_s=0.02), timeout=5)
        await asyncio.gather(*(client.get(server.url) for _ in range(12)))

        await server.wait_for_open(0)

        assert (await client.get(server.url)).text == "ok"  # and it goes on working
        await client.aclose()


async def test_a_refused_connection_gives_its_place_back() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        pools = SmallPoolsTransport()
        client = httpx2.AsyncClient(transport=pools, timeout=5)

        with pytest.raises(httpx2.ConnectError):
            await client.get(f"http://127.0.0.1:{nobody.getsockname()[1]}/")

        assert [pool.busy for pool in pools._pools] == [0]
        await client.aclose()


async def test_a_silent_server_is_awaited_as_long_as_configured() -> None:
    async with serving() as server:
        client = pooled_client(0.05)

        with pytest.raises(httpx2.ReadTimeout):
            await client.get(server.url)

        server.go_on.set()
        await client.aclose()


@pytest.mark.parametrize("name", ["http_proxy", "HTTPS_PROXY", "ALL_PROXY"])
async def test_a_proxy_of_this_machine_is_gone_through(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as proxy:
        proxy.go_on.set()
        monkeypatch.setenv(name, proxy.url)
        scheme = "https" if name == "HTTPS_PROXY" else "http"

        async with pooled_client(0.2) as client:
            try:
                await client.get(f"{scheme}://model.invalid/")
            except httpx2.HTTPError:
                assert scheme == "https"  # the stub speaks no TLS, but it got the request

        assert proxy.accepted == 1
