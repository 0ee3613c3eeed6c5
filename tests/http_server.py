"""An HTTP server of a test's own on this machine, down to the bytes: none of its connections outlasts the test."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    path: str
    body: bytes


async def read_request(reader: StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = int(head.lower().partition("content-length:")[2].partition("\r\n")[0] or 0)
    return Request(head.split()[1], await reader.readexactly(length))


@asynccontextmanager
async def http_server(serve: Callable[[StreamReader, StreamWriter], Awaitable[None]]) -> AsyncIterator[str]:
    """Its address. `serve` has a connection, until it returns or its client has gone."""
    serving: set[asyncio.Task[None]] = set()

    async def connected(reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        task.add_done_callback(serving.discard)
        try:
            await serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has disconnected, or the test is over
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in list(serving):
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await server.wait_closed()
