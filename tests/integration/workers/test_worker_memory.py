"""Worker memory: above its limit a worker hands its runs back and ends."""

import asyncio

import pytest

from tests.integration.stage import Stage, relay, wait_until

pytestmark = pytest.mark.integration

IMPATIENT = """
from workers.celery import settings_loader
from workers.worker_timings import MemoryTimings, WorkerTimings
settings_loader().timings = WorkerTimings(memory=MemoryTimings(check_interval_s=0.2, min_uptime_s={min_uptime_s}))
"""
HOARD = """
hoard = []

def work():
    hoard.append(bytearray(b"x" * 400_000_000))
    return "hoarded"
"""


async def start_small_worker(stage: Stage, *, min_uptime_s: float) -> asyncio.subprocess.Process:
    changes = IMPATIENT.format(min_uptime_s=min_uptime_s)
    return await stage.start_altered_worker(changes, UNATTENDED_MAX_MEMORY_MB="450")


def write_hoarding_package(stage: Stage) -> None:
    package = relay("Hoard", ["A", "B", "C"])
    package["tools"] = {"tools": [{"agent": "A", "file": "work.py", "function": "work"}]}
    package["tools/work.py"] = HOARD
    stage.package("Hoard", package)
    stage.answers(
        {
            "A": [{"tool_calls": [{"name": "work"}]}, {"text": "ok"}],
            "B": [{"text": "ok", "delay_s": 1}],
            "C": [{"text": "ok"}],
        }
    )


async def test_it_hands_its_runs_back_and_ends_with_zero(stage: Stage) -> None:
    write_hoarding_package(stage)
    worker = await start_small_worker(stage, min_uptime_s=0)
    run_id = (await stage.accept("Hoard")).run_id

    assert await asyncio.wait_for(worker.wait(), 20) == 0, stage.log()
    handed_back = await stage.run(run_id)
    await stage.start_worker()
    run = await stage.reconcile_until_end(run_id)

    assert "memory_limit_reached" in stage.log()
    assert (handed_back["state"], handed_back["attempt"], handed_back["worker_losses"]) == ("queued", 1, 0)
    assert handed_back["turn"] > 0
    assert (run["state"], run["attempt"], run["worker_losses"]) == ("succeeded", 1, 0)


async def test_a_worker_that_would_hit_the_limit_again_soon_continues_and_logs(stage: Stage) -> None:
    write_hoarding_package(stage)
    worker = await start_small_worker(stage, min_uptime_s=600)

    run = await stage.wait_for_end((await stage.accept("Hoard")).run_id)
    await wait_until("it is logged", lambda: stage._has_logged("memory_limit_too_low", 0))

    assert (run["state"], worker.returncode) == ("succeeded", None)
