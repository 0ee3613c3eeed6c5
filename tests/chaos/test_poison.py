"""Poison: runs that take their worker down each time are parked, and no run beside them is."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.chaos.lengths import add_summary_line, by_length
from tests.chaos.squad import squad
from tests.integration.stage import ENDED, Stage, relay, wait_until
from workers.store.worker_losses import MAX_ISOLATED_LOSSES

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(by_length(short=180, long=2400))]

POISONOUS = by_length(short=3, long=100)
INNOCENT = by_length(short=2, long=10)
LASTS_S = by_length(short=3.0, long=60.0)
WORKERS = by_length(short=[1], long=[1, 3])
LEASE_S = by_length(short=4, long=6)
WITHIN_S = by_length(short=150, long=2100)
DIES = """
import os, signal

def die():
    if os.getpid() % 2:
        os._exit(3)
    os.kill(os.getpid(), signal.SIGKILL)
"""
WORKS = f"""
import asyncio

async def work():
    await asyncio.sleep({LASTS_S})
    return "done"
"""


def agent_with_tool(name: str, tool: str, source: str) -> Mapping[str, Any]:
    package = relay(name, [name])
    package["tools"] = {"tools": [{"agent": name, "file": f"{tool}.py", "function": tool}]}
    package[f"tools/{tool}.py"] = source
    return package


@pytest.mark.parametrize("workers", WORKERS)
async def test_an_app_that_ends_every_worker_parks_only_its_own_runs(stage: Stage, workers: int) -> None:
    """Each run of the others is one turn, as long as all it does: nothing is kept of one that is lost."""
    stage.package("Poison", agent_with_tool("Poison", "die", DIES))
    stage.package("Work", agent_with_tool("Work", "work", WORKS))
    stage.answers(
        {
            "Poison": [{"tool_calls": [{"name": "die"}]}] * 10,
            "Work": [{"tool_calls": [{"name": "work"}]}, {"text": "done"}],
        }
    )
    async with squad(stage, workers=workers, schedulers=1, lease_s=LEASE_S) as members:
        poisonous, innocent = [], []
        for number in range(POISONOUS):
            poisonous.append((await stage.accept("Poison", app_id="a")).run_id)
            if number < INNOCENT:
                innocent.append((await stage.accept("Work", app_id="b")).run_id)

        async def all_have_ended() -> bool:
            return await stage.store.runs.count_documents({"state": {"$nin": [*ENDED]}}) == 0

        await wait_until("all runs have ended", all_have_ended, within_s=WITHIN_S)
        deaths = sum(member.starts - 1 for member in members.workers)

    theirs = [await stage.run(run_id) for run_id in innocent]
    parked = [await stage.run(run_id) for run_id in poisonous]
    add_summary_line(
        "poison",
        workers=workers,
        poisonous=POISONOUS,
        deaths=deaths,
        losses_of_others=[count_losses(run) for run in theirs],
    )
    assert [run["state"] for run in theirs] == ["succeeded"] * INNOCENT, theirs
    assert {run["state"] for run in parked} == {"parked"}
    assert {run["losses_alone"] for run in parked} == {MAX_ISOLATED_LOSSES}
    assert deaths > 0


def count_losses(run: Mapping[str, Any]) -> int:
    return sum(line["ended"] == "worker_lost" for line in run["history"])
