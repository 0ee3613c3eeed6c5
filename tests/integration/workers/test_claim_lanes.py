"""Lanes on real servers: the next run does not depend on the order of the messages."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from ulid import ULID

from tests.integration.stage import Document, Stage, relay, wait_until
from workers.admission.cap_settings import Caps, parse_caps
from workers.admission.claim_lanes import Lanes
from workers.admission.limits.all_limits import AllLimits
from workers.admission.run_admission import Admission
from workers.store.claimed_runs import FIRST_OF_EACH, MongoRunRepository
from workers.store.run import Claim, RunRequest, RunState, TriggerEvent
from workers.store.run_document import run_document
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

FLOOD = 10_000
SLOW = {"text": "ok", "delay_s": 0.2}
STRANGE_APPS = ("", "$lane", "a.b", "a:b", "ö", "\U0001f600", " ")


async def insert_runs(store: RunStore, apps: Iterable[str], *, workflow: str = "Relay", **changes: Any) -> list[str]:
    """Inserts a run for each of these apps, in that order, at the same time."""
    now, documents = datetime.now(UTC), []
    for app_id in apps:
        event = TriggerEvent("api", "test", str(ULID()), fired_at=now)
        run = run_document(RunRequest(app_id, workflow, event), now=now, republish_after=timedelta(seconds=60))
        documents.append({**run, **changes})
    await store.runs.insert_many(documents)
    return [run["_id"] for run in documents]


async def hold_runs(
    store: RunStore, by: str, apps: list[str], *, kind: str = "concurrency", **changes: Any
) -> list[str]:
    run_ids = await insert_runs(store, apps, hold=kind, held_by=by, **changes)
    await store.runs.update_many({"_id": {"$in": run_ids}}, {"$unset": {"lane": 1}})
    return run_ids


async def started_runs(store: RunStore, **query: Any) -> list[Document]:
    """Returns the runs in the order of their starts."""
    return await store.runs.find({"started_at": {"$ne": None}, **query}).sort("started_at", 1).to_list(None)


async def wait_for_all_ends(store: RunStore, *, within_s: float = 30, **query: Any) -> None:
    async def none_left() -> bool:
        return await store.runs.count_documents({"state": {"$in": ["queued", "running"]}, **query}, limit=1) == 0

    await wait_until("every run has ended", none_left, within_s=within_s)


def max_gap(names: Iterable[str], of: Iterable[str]) -> int:
    """Returns the largest lead of the app with most turns over the one with fewest."""
    counts, most = Counter(dict.fromkeys(of, 0)), 0
    for name in names:
        counts[name] += 1
        most = max(most, max(counts.values()) - min(counts.values()))
    return most


async def test_ten_thousand_runs_of_one_app_do_not_delay_another_ones_single_run(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A"]))
    stage.answers({}, default=SLOW)
    for run_id in await insert_runs(stage.store, ["acme"] * FLOOD):
        stage.wakeups.send(run_id)
    await stage.wakeups.wait_until_published()
    await stage.start_worker(concurrency=1)
    await wait_until("the flood is being worked on", lambda: started_runs(stage.store, state="succeeded"))

    other = await stage.wait_for_end((await stage.accept("Relay", app_id="globex")).run_id)

    between = {"$gt": other["created_at"], "$lt": other["started_at"]}
    assert await stage.store.runs.count_documents({"app_id": "acme", "started_at": between}) <= 1
    longest = max(run["finished_at"] - run["started_at"] for run in await started_runs(stage.store, state="succeeded"))
    assert other["started_at"] - other["created_at"] <= 2 * longest


async def test_inside_an_app_the_urgent_start_first_and_then_the_old(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A"]))
    accepted = [(await stage.accept("Relay", priority=priority)).run_id for priority in (0, 5, 9, 0, 5, 9)]
    await stage.wakeups.wait_until_published()

    await stage.start_worker(concurrency=1)
    await wait_for_all_ends(stage.store)

    in_order = [accepted.index(run["_id"]) for run in await started_runs(stage.store)]
    assert [place % 3 for place in in_order] == [2, 2, 1, 1, 0, 0]
    assert in_order[0] < in_order[1]


async def test_three_apps_with_backlogs_advance_side_by_side(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A"]))
    apps = ["acme"] * 20 + ["globex"] * 20 + ["initech"] * 20
    for run_id in await insert_runs(stage.store, apps):
        stage.wakeups.send(run_id)
    await stage.wakeups.wait_until_published()

    await stage.start_worker(concurrency=1)
    await wait_for_all_ends(stage.store)

    assert max_gap([run["app_id"] for run in await started_runs(stage.store)], apps) == 1


class NoWakeups:
    def send(self, run_id: str) -> None:
        raise AssertionError(run_id)


def lanes_of(store: RunStore, owner: str) -> Lanes:
    ownership = MongoRunRepository(store, owner=owner, lease_s=30)
    limits = AllLimits(Caps(), store)
    admission = Admission(
        limits, ownership, NoWakeups(), has_caps=False, on_held=lambda _: None, on_fenced=lambda: None
    )
    return Lanes(ownership, admission, lambda: False)


async def test_as_many_tickets_as_runs_are_enough_for_every_run(store: RunStore) -> None:
    """Two processes, tickets that name other runs, runs that arrive meanwhile, and app ids of every kind."""
    processes = [lanes_of(store, "one"), lanes_of(store, "two")]

    async def arrive(n: int) -> Claim | None:
        await asyncio.sleep((n % 40) * 0.01)
        [run_id] = await insert_runs(store, [STRANGE_APPS[n % len(STRANGE_APPS)]])
        return await processes[n % 2].claim_next(run_id)

    claims = await asyncio.gather(*(arrive(n) for n in range(200)))

    claimed = Counter(claim.run_id for claim in claims if claim is not None)
    assert len(claimed) == 200
    assert await store.runs.count_documents({"lane": {"$exists": True}}) == 0
    assert await lanes_of(store, "late").claim_next("any") is None


class WorkerDouble:
    """Handles tickets like a worker process, without working on runs."""

    def __init__(self, store: RunStore, owner: str, caps: Caps, tasks: asyncio.TaskGroup) -> None:
        self.ownership = MongoRunRepository(store, owner=owner, lease_s=30)
        self.admission = Admission(
            AllLimits(caps, store),
            self.ownership,
            self,
            has_caps=bool(caps),
            on_held=lambda _: None,
            on_fenced=lambda: None,
        )
        self.lanes = Lanes(self.ownership, self.admission, lambda: False)
        self.tasks = tasks
        self.working: Counter[str] = Counter()

    def send(self, run_id: str) -> None:
        self.tasks.create_task(self.execute(run_id))

    async def execute(self, wakeup: str) -> None:
        ticket: str | None = wakeup
        while ticket is not None and (claim := await self.lanes.claim_next(ticket)) is not None:
            app_id = claim.document["app_id"]
            self.working[app_id] += 1
            assert self.working[app_id] <= 2
            await asyncio.sleep(0.001)
            self.working[app_id] -= 1
            await self.ownership.finish(claim, RunState.SUCCEEDED, {"outcome": None})
            ticket = await self.admission.release_after(claim)


async def test_every_run_is_started_by_its_tickets_alone_whatever_the_caps(store: RunStore) -> None:
    """No reconciler sends further tickets: a dropped ticket, or a release without one, would strand a run."""
    caps, apps = parse_caps("app=2,workflow:Relay=3"), ["acme", "globex", "initech"]
    run_ids = await insert_runs(store, apps * 30) + await insert_runs(store, apps * 30, workflow="Other")

    async with asyncio.TaskGroup() as tasks:
        processes = [WorkerDouble(store, f"process {n}", caps, tasks) for n in range(3)]
        for n, run_id in enumerate(run_ids):
            processes[n % 3].send(run_id)

    assert await store.runs.count_documents({"state": "succeeded"}) == len(run_ids)


async def test_a_cancelled_ready_run_blocks_no_other_run(store: RunStore) -> None:
    first, second = await insert_runs(store, ["acme", "acme"])
    await store.runs.update_one({"_id": first}, {"$set": {"state": "cancelled"}})  # as badly as it can be done

    claim = await lanes_of(store, "one").claim_next(first)

    assert claim is not None
    assert claim.run_id == second
    assert await lanes_of(store, "one").claim_next(first) is None


async def test_a_look_costs_one_seek_for_each_app_that_waits(store: RunStore) -> None:
    apps = [f"app{n}" for n in range(50)]
    await insert_runs(store, apps * 20)

    look = await explain_command(
        store, {"aggregate": "runs", "pipeline": FIRST_OF_EACH, "hint": "by_lane", "cursor": {}}
    )

    assert look["totalKeysExamined"] <= len(apps) + 1
    assert look["totalDocsExamined"] == 0
    assert "DISTINCT_SCAN" in stages(look)


async def explain_command(store: RunStore, command: dict[str, Any]) -> Document:
    answer = await store.database.command("explain", command, verbosity="executionStats")
    if "stages" in answer:
        answer = answer["stages"][0]["$cursor"]
    return dict(answer["executionStats"])


def stages(statistics: Any) -> set[str]:
    if isinstance(statistics, list):
        return set().union(*map(stages, statistics))
    if not isinstance(statistics, dict):
        return set()
    own = {str(statistics["stage"])} if "stage" in statistics else set()
    return own.union(*map(stages, statistics.values()))
