"""Strangers, as a process of their own: callers without a signature that only take up room.

`python -m tests.chaos.strangers HOST PORT COUNT` keeps COUNT of them connected to every route until its input ends.
One whose connection is closed comes again.
"""

import asyncio
import contextlib
import itertools
import random
import resource
import sys
from typing import Any

ROUTES = ("/hooks/acme/Calls/github", "/forms/acme/Calls/lead", "/v1/runs", "/console/login", "/healthz")
BEHAVIOURS = ("silent", "trickling_head", "trickling_body", "half_closed", "header_only")
COMES_AGAIN_AFTER_S = 2.0
TRICKLES_EVERY_S = 1.0


def head_of(route: str) -> bytes:
    return f"POST {route} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n".encode()


class Stranger(asyncio.Protocol):
    def __init__(self, behaviour: str, route: str) -> None:
        self._behaviour = behaviour
        self._head = head_of(route)
        self.is_over = asyncio.get_running_loop().create_future()
        self._transport: Any = None
        self._rest = iter(())

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        if self._behaviour == "header_only":
            transport.write(self._head)
        elif self._behaviour == "half_closed":
            transport.write(self._head + b"1")
            with contextlib.suppress(OSError):  # its connection is closed already
                transport.write_eof()
        elif self._behaviour == "trickling_head":
            self._trickle(itertools.chain(self._head[:-4], itertools.repeat(ord("x"))))
        elif self._behaviour == "trickling_body":
            transport.write(self._head)
            self._trickle(iter(b"[1, 2, 3"))

    def _trickle(self, rest: Any) -> None:
        byte = next(rest, None)
        if byte is not None and not self._transport.is_closing():
            self._transport.write(bytes([byte]))
            asyncio.get_running_loop().call_later(TRICKLES_EVERY_S * random.uniform(0.5, 1.5), self._trickle, rest)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if not self.is_over.done():
            self.is_over.set_result(None)


async def obstruct(host: str, port: int, number: int) -> None:
    loop = asyncio.get_running_loop()
    behaviour = BEHAVIOURS[number % len(BEHAVIOURS)]
    route = ROUTES[number // len(BEHAVIOURS) % len(ROUTES)]
    while True:
        try:
            _, stranger = await loop.create_connection(lambda: Stranger(behaviour, route), host, port)
            await stranger.is_over
        except OSError:
            pass
        await asyncio.sleep(COMES_AGAIN_AFTER_S * random.uniform(0.5, 1.5))


async def main(host: str, port: int, count: int) -> None:
    loop = asyncio.get_running_loop()
    tasks = [asyncio.create_task(obstruct(host, port, number)) for number in range(count)]
    await loop.run_in_executor(None, sys.stdin.read)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
