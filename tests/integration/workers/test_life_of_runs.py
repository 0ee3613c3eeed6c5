"""A random simulation of runs, with concurrent events of every kind, on a real MongoDB.

Workers finish, fail, hand back, freeze and write late. People cancel, answer, discard, replay and retry. Reconcilers
run, wake-ups get lost, runs of an older version appear, and retention deletes. After each round every document is
checked. In the end honest workers and a reconciler remain, and no run may be stuck.

LIFE_SEED and LIFE_SECONDS set another walk, and a longer one.
"""

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.integration.workers.random_events import RandomEvents
from tests.integration.workers.run_document_rules import faults_of, later_faults, turns_faults
from tests.integration.workers.worker_simulation import LONG_AGO, Document, SimulatedWorker, WorkerWorld
from workers.settings import Settings
from workers.store.run_pruner import ROLLUPS
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

SEED = int(os.environ.get("LIFE_SEED", "7"))
SECONDS = float(os.environ.get("LIFE_SECONDS", "7"))
TO_BE_SEEN = frozenset(
    {"fenced", "cancelled as it was given up", "merged", "reclaim", "release", "order", "republish", "retain"}
)
ROUNDS = max(4, round(SECONDS / 2))


async def test_nothing_that_happens_to_runs_loses_doubles_or_stops_one(
    store: RunStore, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = WorkerWorld(store, settings, random.Random(SEED))
    monkeypatch.setattr(store.order, "release_next", crash_sometimes(world, store.order.release_next))
    workers = [SimulatedWorker(world, f"worker {number}") for number in range(3)]
    lives = [RandomEvents(world) for _ in range(3)]
    steps = [worker.step for worker in workers for _ in range(3)] + [life.step for life in lives]
    before: dict[str, Document] = {}
    for round_number in range(6 * ROUNDS):
        if round_number >= ROUNDS and not unseen_events(world):
            break  # a busy machine gets further rounds
        until = time.monotonic() + SECONDS / ROUNDS
        async with asyncio.TaskGroup() as tasks:
            for step in [*steps, *(worker.thaw_now_and_then for worker in workers)]:
                tasks.create_task(repeat_step(step, until))
        before = await assert_rules_hold(world, before)
    monkeypatch.undo()
    await settle_world(world)
    await assert_rules_hold(world, before)
    assert not unseen_events(world), f"this walk did not come by: {unseen_events(world)}"


def crash_sometimes(world: WorkerWorld, release_next: Callable[..., Awaitable[Document | None]]) -> Callable[..., Any]:
    """A process that ended a run may die before it releases the next one of its order key."""

    async def crash_or_release(key: str, *, sends_wakeup: bool) -> Document | None:
        return None if world.dice.random() < 0.1 else await release_next(key, sends_wakeup=sends_wakeup)

    return crash_or_release


def unseen_events(world: WorkerWorld) -> frozenset[str]:
    return TO_BE_SEEN - (+world.did).keys()


async def repeat_step(step: Callable[[], Awaitable[None]], until: float) -> None:
    while time.monotonic() < until:
        await step()
        await asyncio.sleep(0)


async def assert_rules_hold(world: WorkerWorld, before: dict[str, Document]) -> dict[str, Document]:
    """Checks every run while no operation is under way."""
    runs = {run["_id"]: run async for run in world.store.runs.find()}
    turns: dict[str, list[Document]] = {run_id: [] for run_id in runs}
    async for turn in world.store.turns.find():
        turns.setdefault(turn["run_id"], []).append(turn)
    pruned = sum([row["count"] async for row in world.store.database[ROLLUPS].find()])
    faults = [*world.faults, *(fault for run in runs.values() for fault in faults_of(run))]
    faults += [fault for run_id, run in runs.items() for fault in turns_faults(run, turns[run_id])]
    faults += [fault for run_id, run in before.items() if run_id in runs for fault in later_faults(run, runs[run_id])]
    faults += [f"{run_id} has turns only" for run_id in turns.keys() - runs.keys()]
    assert not faults, faults[:20]
    assert len(runs) + pruned == world.accepted
    return runs


async def settle_world(world: WorkerWorld) -> None:
    """Runs honest workers and a reconciler after all wake-ups were lost. Frozen workers are dead; time passes."""
    world.tickets.clear()
    world.at_work.clear()
    workers = [SimulatedWorker(world, f"honest {number}", honest=True) for number in range(2)]
    reconciler, give_up_at = world.reconciler(), time.monotonic() + 20
    unfinished = {"state": {"$in": ["queued", "running"]}}
    while left := await world.store.runs.find(unfinished).to_list(None):
        assert time.monotonic() < give_up_at, f"{len(left)} are stuck: {left[:3]}"
        await world.store.runs.update_many({"state": "running"}, {"$set": {"lease.until": LONG_AGO}})
        past = {"not_before": LONG_AGO, "wake_at": LONG_AGO}
        await world.store.runs.update_many({"state": "queued", "hold": None}, {"$set": past})
        await reconciler.run_pass()
        while world.tickets:
            await asyncio.gather(*(worker.step() for worker in workers for _ in range(4)))
