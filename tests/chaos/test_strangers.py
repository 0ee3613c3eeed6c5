"""Thousands of callers that send nothing or half of a request, on every route: deliveries of others are accepted."""

import asyncio
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import psutil
import pytest

from tests.chaos.lengths import add_summary_line, by_length
from tests.integration.stage import wait_until
from tests.integration.triggers.test_gateway_flood import gateway_process
from tests.webhook_senders import BY_NAME
from workers.settings import Settings

pytestmark = [pytest.mark.integration, pytest.mark.chaos, pytest.mark.timeout(240)]

GITHUB = BY_NAME["github"]
STRANGERS = 3_000
LASTS_S = by_length(short=6, long=60)
DELIVERIES_PER_S = 20
MAX_P99_S = 1.0
MIN_ACCEPTED = 0.99
MAX_GROWTH = 1.5
PAGES = {"/healthz": 200, "/console/login": 200, "/v1/runs": 401, "/openapi.json": 200}  # a place of each kind of route


@dataclass
class HonestAnswers:
    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def accepted(self) -> float:
        return len(self.seconds) / (len(self.seconds) + len(self.failures))

    @property
    def p99_s(self) -> float:
        return sorted(self.seconds)[int(len(self.seconds) * 0.99)]


@asynccontextmanager
async def strangers(host: str, port: int) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.chaos.strangers", host, str(port), str(STRANGERS)), stdin=PIPE, stderr=DEVNULL
    )
    try:
        yield
    finally:
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()


async def send_and_time(
    answers: HonestAnswers, send: Callable[[], Awaitable[httpx.Response]], path: str, expected: int
) -> None:
    began = time.monotonic()
    try:
        status = (await send()).status_code
    except httpx.TransportError as error:
        answers.failures.append(f"{path}: {error!r}")
        return
    if status == expected:
        answers.seconds.append(time.monotonic() - began)
    else:
        answers.failures.append(f"{path}: {status}")


async def honest_traffic(base: str, lasts_s: float) -> tuple[HonestAnswers, HonestAnswers]:
    """Signed deliveries at an even pace, every second one on a connection of its own; and pages of each route."""
    deliveries, pages = HonestAnswers(), HonestAnswers()
    fresh = httpx.Limits(max_keepalive_connections=0)
    async with (
        asyncio.TaskGroup() as tasks,
        httpx.AsyncClient(base_url=base, timeout=10) as kept,
        httpx.AsyncClient(base_url=base, timeout=10, limits=fresh) as once,
    ):
        began, asked = time.monotonic(), []
        for number in range(int(lasts_s * DELIVERIES_PER_S)):
            await asyncio.sleep(max(began + number / DELIVERIES_PER_S - time.monotonic(), 0))
            client, call = (kept, once)[number % 2], GITHUB.call(delivery=f"honest-{began}-{number}")
            asked.append(
                tasks.create_task(
                    send_and_time(deliveries, partial(client.post, GITHUB.path, **call), GITHUB.path, 202)
                )
            )
            if number % 5 == 0:
                path, expected = list(PAGES.items())[number // 5 % len(PAGES)]
                asked.append(tasks.create_task(send_and_time(pages, partial(once.get, path), path, expected)))
        await asyncio.gather(*asked)
    return deliveries, pages


async def highest_memory(process: psutil.Process, highest: list[int]) -> None:
    while True:
        highest[0] = max(highest[0], process.memory_info().rss)
        await asyncio.sleep(0.2)


@pytest.mark.parametrize("descriptors", [None, 1_024], ids=["hard-limit", "ulimit-1024"])
async def test_unknown_callers_fill_no_slot(settings: Settings, tmp_path: Path, descriptors: int | None) -> None:
    async with gateway_process(settings, tmp_path, descriptors=descriptors) as (process, host, port):
        base = f"http://{host}:{port}"
        calm, _ = await honest_traffic(base, 3)
        before = process.memory_info().rss
        highest = [before]
        async with strangers(host, port):

            async def is_crowded() -> bool:
                inside = await connections(base)
                return inside > (STRANGERS * 0.8 if descriptors is None else descriptors * 0.5)

            await wait_until("the strangers are there", is_crowded, within_s=60)
            watching = asyncio.create_task(highest_memory(process, highest))
            deliveries, pages = await honest_traffic(base, LASTS_S)
            watching.cancel()

    add_summary_line(
        f"{STRANGERS} strangers for {LASTS_S} s, {descriptors or 'all'} descriptors",
        deliveries=len(deliveries.seconds) + len(deliveries.failures),
        accepted=f"{deliveries.accepted:.2%}",
        p99_ms_without_them=round(calm.p99_s * 1000),
        p50_ms=round(sorted(deliveries.seconds)[len(deliveries.seconds) // 2] * 1000),
        p99_ms=round(deliveries.p99_s * 1000),
        pages=f"{pages.accepted:.2%}",
        pages_p99_ms=round(pages.p99_s * 1000),
        memory=f"{highest[0] / before:.2f}x of {before >> 20} MB",
    )
    assert deliveries.accepted >= MIN_ACCEPTED, deliveries.failures[:5]
    # The short form runs beside other tests, which delay calm deliveries too; the long one has the machine to itself.
    assert deliveries.p99_s <= MAX_P99_S + by_length(short=5 * calm.p99_s, long=0.0)
    assert pages.accepted >= MIN_ACCEPTED, pages.failures[:5]
    assert highest[0] <= MAX_GROWTH * before


async def connections(base: str) -> float:
    async with httpx.AsyncClient(base_url=base, timeout=10) as client:
        lines = (await client.get("/metrics")).text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("unattended_gateway_connections{"))
