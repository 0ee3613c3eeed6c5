"""The soak: thousands of runs through one worker process, whose memory, descriptors and threads stay as they were."""

import asyncio
from asyncio.subprocess import Process
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import linear_regression
from urllib.parse import urlsplit

import psutil
import pytest

from tests.chaos.lengths import add_summary_line, by_length
from tests.integration.stage import ENDED, Stage, relay, wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(by_length(short=120, long=420))]

RUNS = by_length(short=600, long=5_000)
WARM_UP = by_length(short=300, long=2_000)
IN_FLIGHT = 60
SAMPLE_EVERY = by_length(short=20, long=50)
# What a worker may grow by in a thousand runs. Short of warm, allocators still spread.
MAX_SLOPE_KB = by_length(short=12_000, long=600)

MAX_MORE_DESCRIPTORS = 5  # of pools beside that of MongoDB

TOOL = """
def note(text: str, *, context_variables=None):
    context_variables.set("noted", text * 20)
    if text == "bad":
        raise ValueError("not this one")
    return "noted"
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """`descriptors` excludes connections to MongoDB: their pool grows with the commands of one moment."""

    runs: int
    resident_kb: int
    descriptors: int
    threads: int


def sample(worker: Process, runs: int, *, mongodb_port: int) -> Sample:
    process = psutil.Process(worker.pid)
    with process.oneshot():
        pooled = sum(bool(each.raddr) and each.raddr.port == mongodb_port for each in process.net_connections("tcp"))
        return Sample(runs, process.memory_info().rss // 1024, process.num_fds() - pooled, process.num_threads())


def max_descriptors(samples: Iterable[Sample]) -> int:
    return max(each.descriptors for each in samples)


def write_noting_package(stage: Stage) -> None:
    package = relay("Notes", ["A", "B"])
    package["tools"] = {"tools": [{"agent": "A", "file": "note.py", "function": "note"}]}
    package["tools/note.py"] = TOOL
    package["context_variables"] = {
        "definitions": {"noted": {"type": "string", "source": {"type": "state", "default": ""}}},
        "agents": {"B": {"variables": ["noted"]}},
    }
    stage.package("Notes", package)
    calls = [{"name": "note", "arguments": {"text": text}} for text in ("good", "bad")]
    stage.answers({"A": [{"tool_calls": calls}, {"text": "noted " * 50}], "B": [{"text": "read"}]})


async def test_a_worker_grows_by_nothing(stage: Stage) -> None:
    write_noting_package(stage)
    worker = await stage.start_worker()
    mongodb_port = urlsplit(stage.settings.mongodb_url or "").port or 0
    samples: list[Sample] = []
    accepted = 0

    async def ended() -> int:
        return await stage.store.runs.count_documents({"state": {"$in": sorted(ENDED)}})

    async def next_sample_due() -> bool:
        nonlocal accepted
        done = await ended()
        while accepted < min(done + IN_FLIGHT, RUNS):
            await stage.accept("Notes", message="x" * 2_000)
            accepted += 1
        return done >= (samples[-1].runs + SAMPLE_EVERY if samples else 0) or done == RUNS

    reconciler = stage.reconciler()
    while not samples or samples[-1].runs < RUNS:
        await wait_until("more runs have ended", next_sample_due)
        samples.append(sample(worker, await ended(), mongodb_port=mongodb_port))
        await reconciler.run_pass()
        await asyncio.sleep(0)

    warm = [each for each in samples if each.runs >= WARM_UP]
    slope_kb = linear_regression([each.runs for each in warm], [each.resident_kb for each in warm]).slope * 1_000
    add_summary_line(
        "soak",
        runs=RUNS,
        resident_mb=f"{warm[0].resident_kb // 1024} to {warm[-1].resident_kb // 1024}",
        slope=f"{slope_kb:.0f} KB per 1,000 runs",
        descriptors=f"{warm[0].descriptors} to {warm[-1].descriptors}",
        threads=f"{warm[0].threads} to {warm[-1].threads}",
    )
    assert slope_kb <= MAX_SLOPE_KB
    before = [each for each in samples if each not in warm]
    late = warm[-(len(warm) // 3) :]
    for last, first in ((warm[-5:], before), (late, warm[: len(late)])):
        assert max_descriptors(last) <= max_descriptors(first) + MAX_MORE_DESCRIPTORS
    # Pools make threads as they are needed: one for each run in flight, and one for its tool.
    assert max(each.threads for each in late) <= 2 * IN_FLIGHT + 30
    assert await stage.store.runs.count_documents({"state": "succeeded"}) == RUNS
