"""Poison: a run that takes its worker down each time is parked, and nobody who was beside it is."""

import asyncio

import pytest

from tests.chaos.lengths import length, told
from tests.chaos.squad import squad
from tests.integration.stage import Stage, relay
from workers.reconciling.reclaim import MAX_WORKER_LOSSES

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(length(short=120, long=300))]

# The short form begins when the poison has killed all but one of the workers that it may have.
KILLED_BEFORE = length(short=MAX_WORKER_LOSSES - 1, long=0)
BESIDE = 30
LONG_RUN = [f"A{number}" for number in range(length(short=12, long=120))]
DIE = """
import os, signal, time

def die():
    time.sleep(1)  # until others are in the middle of a turn
    os.kill(os.getpid(), signal.SIGKILL)
"""


async def test_a_run_that_kills_its_worker_each_time_is_parked_and_others_proceed(stage: Stage) -> None:
    poison = relay("Poison", ["Killer"])
    poison["tools"] = {"tools": [{"agent": "Killer", "file": "die.py", "function": "die"}]}
    poison["tools/die.py"] = DIE
    stage.package("Poison", poison)
    stage.package("Relay", relay("Relay", ["B", "C"]))
    stage.package("Long", relay("Long", LONG_RUN, limits={"max_turns": len(LONG_RUN) + 1}))
    stage.answers(
        {"Killer": [{"tool_calls": [{"name": "die"}]}] * 10},
        default={"text": "fine", "delay_s": length(short=0.3, long=0.6)},
    )
    poisoned = (await stage.accept("Poison", wake=False)).run_id
    await stage.store.runs.update_one({"_id": poisoned}, {"$set": {"worker_losses": KILLED_BEFORE}})
    stage.wakeups.send(poisoned)

    async with squad(stage, workers=1, schedulers=1) as members:
        through_it_all = (await stage.accept("Long")).run_id
        beside = []
        for _ in range(BESIDE):
            beside.append((await stage.accept("Relay")).run_id)
            await asyncio.sleep(length(short=0.05, long=0.8))
        parked = await stage.ended(poisoned, within_s=180)
        survivor = await stage.ended(through_it_all, within_s=180)
        others = [await stage.ended(run_id) for run_id in beside]
        deaths = members.workers[0].starts - 1

    lost_by = [sum(line["ended"] == "worker_lost" for line in run["history"]) for run in (survivor, *others)]
    told("poison", deaths=deaths, runs_beside=BESIDE + 1, takeovers_of_others=sum(lost_by), most=max(lost_by))
    assert (parked["state"], parked["outcome"]["kind"]) == ("parked", "worker_lost")
    died_of_it = sum(line["ended"] == "worker_lost" for line in parked["history"])
    assert died_of_it == MAX_WORKER_LOSSES - KILLED_BEFORE
    assert deaths == died_of_it
    assert lost_by[0] >= deaths - 1, "the long run was meant to be beside the poison all the time"
    assert {run["state"] for run in (survivor, *others)} == {"succeeded"}
