"""Connections to model servers: an HTTP client with many small pools.

httpcore looks at every connection of a pool for each request, so a large pool costs more per call the more runs there
are, and a pool of 100 blocks the 101st call. Here a call goes to the first pool with room: few calls share few warm
connections, a thousand fill 63 pools, and idle pools are closed.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast
from urllib.request import getproxies

import httpx2

POOL_SIZE = 16  # for each request, a system call checks whether each idle connection is still open
MAX_POOLS = 128
MAX_IDLE_CONNECTIONS = 100  # of the one pool behind a proxy
IDLE_TIMEOUT_S = 20.0  # below the keep-alive of common servers: a connection that they closed cannot be used again
CONNECT_TIMEOUT_S = 10.0


def pooled_client(timeout_s: float) -> httpx2.AsyncClient:
    """Makes a client for one model and process, on the loop that uses it.

    `aclose()` leaves no socket open. `timeout_s` bounds each read and write, not the whole call. An SDK with a timeout
    of its own must be given `client.timeout`."""
    timeout = httpx2.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S))
    if {"http", "https", "all"} & getproxies().keys():
        # A transport of our own would bypass the machine's proxy; httpx finds it.
        limits = _limits(POOL_SIZE * MAX_POOLS, MAX_IDLE_CONNECTIONS, IDLE_TIMEOUT_S)
        return httpx2.AsyncClient(timeout=timeout, limits=limits, follow_redirects=True)
    return httpx2.AsyncClient(transport=SmallPoolsTransport(), timeout=timeout, follow_redirects=True)


def _limits(connections: int, max_idle: int, idle_s: float) -> httpx2.Limits:
    return httpx2.Limits(max_connections=connections, max_keepalive_connections=max_idle, keepalive_expiry=idle_s)


@lru_cache(maxsize=1)
def _tls_context() -> ssl.SSLContext:
    """Makes the context once: reading this machine's certificates takes 16 ms."""
    return httpx2.create_ssl_context()


@dataclass(eq=False, slots=True)
class _Pool:
    transport: httpx2.AsyncHTTPTransport
    busy: int = 0
    released_at: float = field(default_factory=time.monotonic)

    def release(self) -> None:
        self.busy -= 1
        self.released_at = time.monotonic()


class SmallPoolsTransport(httpx2.AsyncBaseTransport):
    def __init__(
        self, *, pool_size: int = POOL_SIZE, max_pools: int = MAX_POOLS, idle_s: float = IDLE_TIMEOUT_S
    ) -> None:
        self._pool_size = pool_size
        self._max_pools = max_pools
        self._idle_s = idle_s
        self._pools: list[_Pool] = []
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        pool = self._pick_pool()
        pool.busy += 1
        try:
            response = await pool.transport.handle_async_request(request)
        except BaseException:  # also when cancelled: the slot is free again
            pool.release()
            raise
        response.stream = _ReleasingStream(cast(httpx2.AsyncByteStream, response.stream), pool)
        if self._sweep_timer is None:
            self._schedule_sweep()
        return response

    async def aclose(self) -> None:
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        pools, self._pools = self._pools, []
        await asyncio.gather(*(pool.transport.aclose() for pool in pools), *self._closing)

    def _pick_pool(self) -> _Pool:
        for pool in self._pools:
            if pool.busy < self._pool_size:
                return pool
        if len(self._pools) == self._max_pools:
            return min(self._pools, key=lambda pool: pool.busy)  # the call waits there for a connection
        limits = _limits(self._pool_size, self._pool_size, self._idle_s)
        pool = _Pool(httpx2.AsyncHTTPTransport(verify=_tls_context(), limits=limits))
        self._pools.append(pool)
        return pool

    def _schedule_sweep(self) -> None:
        self._sweep_timer = asyncio.get_running_loop().call_later(self._idle_s, self._close_idle)

    def _close_idle(self) -> None:
        self._sweep_timer = None
        long_ago = time.monotonic() - self._idle_s
        idle = [pool for pool in self._pools if not pool.busy and pool.released_at <= long_ago]
        self._pools = [pool for pool in self._pools if pool not in idle]
        for pool in idle:
            task = asyncio.create_task(pool.transport.aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        if self._pools:
            self._schedule_sweep()


class _ReleasingStream(httpx2.AsyncByteStream):
    """An answer's body. It occupies a slot of the pool until it is closed."""

    def __init__(self, body: httpx2.AsyncByteStream, pool: _Pool) -> None:
        self._body = body
        self._pool: _Pool | None = pool

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._body:
            yield part

    async def aclose(self) -> None:
        try:
            await self._body.aclose()
        finally:
            if self._pool is not None:
                self._pool.release()
                self._pool = None
