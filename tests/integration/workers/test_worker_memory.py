"""A worker that grows beyond its limit hands its runs back and ends, to be started anew."""

import asyncio
import sys

import pytest

from tests.integration.stage import Stage, relay, until
from workers.settings import as_environment

pytestmark = pytest.mark.integration

# As `unattended worker`, but looking more often, and old enough from the start.
IMPATIENT = """
import sys
import workers.process.memory
workers.process.memory.LOOK_EVERY_S = 0.2
workers.process.memory.LEAST_UPTIME_S = {least_uptime_s}
from ops.cli.main import run
sys.argv = ["unattended", "worker"]
run()
"""
HOARD = """
hoard = []

def work():
    hoard.append(bytearray(b"x" * 400_000_000))
    return "hoarded"
"""


async def started(stage: Stage, *, least_uptime_s: float) -> asyncio.subprocess.Process:
    log = (stage.folder / f"worker-{len(stage.workers)}.log").open("ab")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-c",
        IMPATIENT.format(least_uptime_s=least_uptime_s),
        env={**as_environment(stage.settings), "UNATTENDED_MAX_MEMORY_MB": "450"},
        stdout=log,
        stderr=log,
        cwd=stage.folder,
    )
    log.close()
    stage.workers.append(process)
    await until("the worker is ready", lambda: stage._says("worker_ready", len(stage.workers) - 1))
    return process


def hoarding(stage: Stage) -> None:
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
    hoarding(stage)
    worker = await started(stage, least_uptime_s=0)
    run_id = (await stage.accept("Hoard")).run_id

    assert await asyncio.wait_for(worker.wait(), 20) == 0, stage.log()
    handed_back = await stage.run(run_id)
    await stage.start_worker()
    run = await stage.reconciled_until_ended(run_id)

    assert "memory_limit_reached" in stage.log()
    assert (handed_back["state"], handed_back["attempt"], handed_back["worker_losses"]) == ("queued", 1, 0)
    assert handed_back["turn"] > 0
    assert (run["state"], run["attempt"], run["worker_losses"]) == ("succeeded", 1, 0)


async def test_one_that_would_soon_be_there_again_goes_on_and_says_so(stage: Stage) -> None:
    hoarding(stage)
    worker = await started(stage, least_uptime_s=600)

    run = await stage.ended((await stage.accept("Hoard")).run_id)
    await until("it says so", lambda: stage._says("memory_limit_too_low", 0))

    assert (run["state"], worker.returncode) == ("succeeded", None)
