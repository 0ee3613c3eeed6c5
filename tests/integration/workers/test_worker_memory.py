"""A worker that grows beyond its limit hands its runs back and ends, to be started anew."""

import asyncio

import pytest

from tests.integration.stage import Stage, relay, until

pytestmark = pytest.mark.integration

IMPATIENT = (
    "import workers.process.memory as memory\nmemory.LOOK_EVERY_S, memory.LEAST_UPTIME_S = 0.2, {least_uptime_s}"
)
HOARD = """
hoard = []

def work():
    hoard.append(bytearray(b"x" * 400_000_000))
    return "hoarded"
"""


async def started(stage: Stage, *, least_uptime_s: float) -> asyncio.subprocess.Process:
    changes = IMPATIENT.format(least_uptime_s=least_uptime_s)
    return await stage.start_altered_worker(changes, UNATTENDED_MAX_MEMORY_MB="450")


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
