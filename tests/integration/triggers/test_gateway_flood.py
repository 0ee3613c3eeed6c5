"""Thousands of silent, slow and endless callers do not affect the others."""

import asyncio
import contextlib
import resource
import signal
import time
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import psutil
import pytest

from ops.free_ports import find_free_address
from ops.processes.supervisor import role_command
from tests.chaos.lengths import add_summary_line, by_length
from tests.integration.triggers.condition_wait import wait_until
from tests.integration.triggers.gateway_server import settings_with_senders
from tests.integration.triggers.test_gateway_process import wait_until_ready
from tests.webhook_senders import BY_NAME
from workers.settings import Settings, as_environment

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

GITHUB = BY_NAME["github"]
SILENT = by_length(short=2_000, long=10_000)
TRICKLING = 50
ENDLESS = 4
CALLS = 200
MEGABYTE = 1_048_576
ENDLESS_BYTES = 100 * MEGABYTE
POST = f"POST {GITHUB.path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n".encode()


@asynccontextmanager
async def gateway_process(
    settings: Settings, folder: Path, *, descriptors: int | None = None
) -> AsyncIterator[tuple[psutil.Process, str, int]]:
    """As in production, so that its memory is its own; with `ulimit -n` where `descriptors` are given."""
    address = find_free_address()
    bounded = () if descriptors is None else ("sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh")
    environment = as_environment(replace(settings_with_senders(settings, folder), listen=address))
    process = await asyncio.create_subprocess_exec(
        *bounded,
        *role_command("gateway"),
        env={**environment, "UNATTENDED_LOG_LEVEL": "error"},
        stderr=DEVNULL,
        cwd=folder,
    )
    try:
        async with httpx.AsyncClient(base_url=f"http://{address}") as client:
            await wait_until_ready(client)
        yield psutil.Process(process.pid), address.host, address.port
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


class NuisanceCallers:
    """Callers that want nothing but to be in the way. They go on until the test ends."""

    def __init__(self, host: str, port: int) -> None:
        self._where = host, port
        self._tasks: list[asyncio.Task[None]] = []
        self.connected = 0
        self.sent = 0

    async def begin(self) -> None:
        jobs = [self._stay_silent() for _ in range(SILENT)]
        jobs += [self._trickle() for _ in range(TRICKLING)]
        jobs += [
            self._send_endlessly(head)
            for head in (b"transfer-encoding: chunked", b"content-length: %d" % ENDLESS_BYTES) * (ENDLESS // 2)
        ]
        self._tasks = [asyncio.create_task(job) for job in jobs]
        await wait_until(self._are_all_connected, "every nuisance is connected", within_s=60)

    async def _are_all_connected(self) -> bool:
        return self.connected == len(self._tasks)

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        for outcome in await asyncio.gather(*self._tasks, return_exceptions=True):
            assert outcome is None or isinstance(outcome, asyncio.CancelledError), outcome

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection(*self._where)
        self.connected += 1
        try:
            with contextlib.suppress(ConnectionError):
                yield reader, writer
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _stay_silent(self) -> None:
        async with self._connect() as (reader, _):
            await reader.read()

    async def _trickle(self) -> None:
        async with self._connect() as (_, writer):
            writer.write(POST + b"content-length: 9999\r\n\r\n")
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.1)

    async def _send_endlessly(self, head: bytes) -> None:
        chunk = b"x" * 65_536
        piece = b"10000\r\n" + chunk + b"\r\n" if b"chunked" in head else chunk
        async with self._connect() as (_, writer):
            writer.write(POST + head + b"\r\n\r\n")
            for _ in range(ENDLESS_BYTES // len(chunk)):
                writer.write(piece)
                await writer.drain()
                self.sent += len(piece)


async def send_calls(host: str, port: int, *, name: str) -> list[float]:
    """How long each took, five at a time."""
    seconds: list[float] = []
    async with httpx.AsyncClient(base_url=f"http://{host}:{port}", timeout=30) as client:

        async def caller(number: int) -> None:
            for each in range(CALLS // 5):
                began = time.monotonic()
                answer = await client.post(GITHUB.path, **GITHUB.call(delivery=f"{name}-{number}-{each}"))
                seconds.append(time.monotonic() - began)
                assert answer.status_code == 202, answer.text

        await asyncio.gather(*(caller(number) for number in range(5)))
    return sorted(seconds)


async def test_silent_trickling_and_endless_callers_harm_no_other_caller(settings: Settings, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, SILENT + 2_000), hard), hard))
    async with gateway_process(settings, tmp_path) as (process, host, port):
        await send_calls(host, port, name="warm")
        before, memory = await send_calls(host, port, name="before"), process.memory_info().rss
        nuisance = NuisanceCallers(host, port)
        await nuisance.begin()
        try:
            during, grown = await send_calls(host, port, name="during"), process.memory_info().rss - memory
        finally:
            await nuisance.end()

    p99_before_s, p99_during_s = (each[int(len(each) * 0.99)] for each in (before, during))
    add_summary_line(
        f"{SILENT} silent, {TRICKLING} trickling, {ENDLESS} endless callers",
        p99_ms_before=round(p99_before_s * 1000),
        p99_ms_during=round(p99_during_s * 1000),
        megabytes=round(grown / MEGABYTE),
        sent_megabytes=round(nuisance.sent / MEGABYTE),
    )
    assert p99_during_s < 5 * p99_before_s + 1
    assert grown < SILENT * 10_000 + (TRICKLING + ENDLESS) * MEGABYTE
