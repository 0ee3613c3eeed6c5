"""The exporter's snapshot on a real MongoDB: every run is counted where it belongs, and once."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo.asynchronous.client_session import AsyncClientSession

from accounting.infra.snapshot_read import snapshot_read
from ops.exporter.ledger_counts import read_ledger_counts
from ops.exporter.store_snapshot import Snapshot, SnapshotReader
from workers.store.ended_counts import RunLabels
from workers.store.queue_counts import (
    AppWorkflow,
    QueueCounts,
    QueueReader,
    due_pipeline,
    held_pipeline,
    ready_pipeline,
    ready_since_pipeline,
    running_query,
    waiting_for_person_pipeline,
)
from workers.store.run import RunRequest, TriggerEvent
from workers.store.run_pruner import ROLLUPS
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

NOW = datetime.now(UTC)
LATER = NOW + timedelta(hours=5)
TEN_MINUTES_AGO = NOW - timedelta(minutes=10)


def age_s(moment: datetime) -> float:
    return (datetime.now(UTC) - moment).total_seconds()


async def insert_run(store: RunStore, number: int, *, ready: bool = False, **changes: Any) -> None:
    """A run document in a state; only claimable runs have a lane."""
    event = TriggerEvent("api", "test", str(number), fired_at=NOW)
    run_id = (await store.insert(RunRequest("acme", "Digest", event))).run_id
    await store.runs.update_one({"_id": run_id}, {"$set": {"created_at": TEN_MINUTES_AGO, **changes}})
    if not ready:
        await store.runs.update_one({"_id": run_id}, {"$unset": {"lane": 1}})


async def snapshot_of(store: RunStore) -> Snapshot:
    return await SnapshotReader(store.database).read()


async def test_every_run_is_counted_by_its_state(store: RunStore) -> None:
    leased: dict[str, Any] = {"lease": {"owner": "w", "token": 1, "until": LATER}}
    runs: list[dict[str, Any]] = [
        {"state": "succeeded", "outcome": {"kind": "completed"}},
        {"state": "succeeded", "outcome": {"kind": "completed"}},
        {"state": "failed", "outcome": {"kind": "timeout"}},
        {"state": "cancelled", "outcome": None},
        {"state": "parked", "outcome": {"kind": "worker_lost"}},
        {"state": "needs_human", "outcome": {"kind": "needs_human"}},
        {"state": "running", **leased},
        {"state": "running", **leased},
        {"state": "queued", "ready": True, "wake_at": TEN_MINUTES_AGO},
        {"state": "queued", "not_before": TEN_MINUTES_AGO, "wake_at": TEN_MINUTES_AGO},
        {"state": "queued", "not_before": LATER, "wake_at": LATER},
        {"state": "queued", "hold": "budget", "held_by": "budget:x"},
    ]
    for number, changes in enumerate(runs):
        await insert_run(store, number, **changes)

    snapshot = await snapshot_of(store)

    ended = Counter({labels.outcome: count for labels, count in snapshot.runs.items()})
    assert ended == {"completed": 2, "timeout": 1, "unknown": 1, "worker_lost": 1}
    assert (snapshot.queue.in_progress, snapshot.queue.parked) == (2, 1)
    assert snapshot.queue.queued == {"": 2, "budget": 1, "concurrency": 0, "rate": 0}
    assert snapshot.queue.oldest_queued_age_s == pytest.approx(age_s(TEN_MINUTES_AGO), abs=60)


async def test_runs_waiting_for_a_person_are_counted_by_app_and_workflow(store: RunStore) -> None:
    """Other runs in these states, and answered runs, do not count as waiting for a person."""
    hour_ago = NOW - timedelta(hours=1)
    runs: list[dict[str, Any]] = [
        {"state": "needs_human", "finished_at": NOW},
        {"state": "needs_human", "finished_at": hour_ago},
        {"state": "needs_human", "finished_at": TEN_MINUTES_AGO, "app_id": "globex"},
        {"state": "needs_human", "finished_at": NOW, "workflow": "Refund"},
        {"state": "parked", "finished_at": hour_ago},
        {"state": "queued", "finished_at": None},
    ]
    for number, changes in enumerate(runs):
        await insert_run(store, number, **changes)

    waiting = (await snapshot_of(store)).queue.waiting_for_person

    assert {owner: each.count for owner, each in waiting.items()} == {
        AppWorkflow("acme", "Digest"): 2,
        AppWorkflow("globex", "Digest"): 1,
        AppWorkflow("acme", "Refund"): 1,
    }
    ages = {owner: each.oldest_age_s for owner, each in waiting.items()}
    assert ages[AppWorkflow("acme", "Digest")] == pytest.approx(age_s(hour_ago), abs=60)
    assert ages[AppWorkflow("globex", "Digest")] == pytest.approx(age_s(TEN_MINUTES_AGO), abs=60)
    assert ages[AppWorkflow("acme", "Refund")] == pytest.approx(age_s(NOW), abs=60)


@pytest.mark.parametrize("waited_for", ["its turn", "its time"])
async def test_a_run_waits_for_workers_from_when_it_might_start(store: RunStore, waited_for: str) -> None:
    """Otherwise each run of an order would raise an alert, as it is accepted long before its turn."""
    now = datetime.now(UTC)
    if waited_for == "its turn":
        order = {"key": "acme/doc", "seq": "1"}
        await insert_run(store, 1, hold="concurrency", held_by="order:acme/doc", order=order)
        assert await store.order.release_next("acme/doc", sends_wakeup=True) is not None
    else:
        await insert_run(store, 1, not_before=now, wake_at=now)

    assert (await snapshot_of(store)).queue.oldest_queued_age_s < 60
    long_ago = now - timedelta(minutes=5)
    await store.runs.update_one({}, {"$set": {"ready_at": long_ago, "not_before": None}})
    assert (await snapshot_of(store)).queue.oldest_queued_age_s == pytest.approx(age_s(long_ago), abs=60)


async def test_of_a_long_queue_the_run_that_waits_longest_is_found(store: RunStore) -> None:
    """The oldest is among the first accepted runs, unless all of those became ready just now."""

    async def read(session: AsyncClientSession) -> QueueCounts:
        return await QueueReader(store.database, session, datetime.now(UTC), max_oldest=3).read()

    for number in range(6):
        await insert_run(store, number, ready=True, created_at=NOW - timedelta(minutes=60 - number))

    first = await snapshot_read(store.database, read)
    await store.runs.update_many({"created_at": {"$lt": NOW - timedelta(minutes=57)}}, {"$set": {"ready_at": NOW}})
    second = await snapshot_read(store.database, read)

    assert (first.queued[""], second.queued[""]) == (6, 6)
    assert first.oldest_queued_age_s == pytest.approx(age_s(NOW - timedelta(minutes=60)), abs=60)
    assert second.oldest_queued_age_s == pytest.approx(age_s(NOW - timedelta(minutes=57)), abs=60)


async def test_what_was_rolled_up_counts_like_what_is_there(store: RunStore) -> None:
    await insert_run(store, 1, state="succeeded", outcome={"kind": "completed"})
    labels = RunLabels("acme", "Digest", "api", "completed")
    key = {name: value for name, value in labels._asdict().items() if name != "stranded"}
    await store.database[ROLLUPS].insert_one({"_id": key, "count": 41})

    runs = (await snapshot_of(store)).runs

    assert runs == {labels: 42}


async def test_the_queue_is_read_out_of_indexes(store: RunStore) -> None:
    """Many ready runs are counted by the index alone."""
    await insert_run(store, 1, ready=True)
    pipelines = {
        "by_lane": ready_pipeline(),
        "_id_": ready_since_pipeline({"_id": {"$in": ["a"]}}),
        "by_lane_and_wake_up": due_pipeline(NOW),
        "by_lane_and_wake_up ": held_pipeline(),
        "waiting_for_person": waiting_for_person_pipeline(),
        "by_lease_end": [{"$match": running_query()}, {"$count": "count"}],
    }

    for index, pipeline in pipelines.items():
        command = {"aggregate": "runs", "pipeline": pipeline, "cursor": {}}
        explained = await store.database.command("explain", command, verbosity="queryPlanner")
        planner = explained.get("queryPlanner") or explained["stages"][0]["$cursor"]["queryPlanner"]
        plan = str(planner["winningPlan"])
        assert f"'indexName': '{index.strip()}'" in plan or (index == "_id_" and "IDHACK" in plan), plan
        assert "COLLSCAN" not in plan
        assert index not in ("by_lane", "waiting_for_person") or "FETCH" not in plan


async def test_the_ledger_shows_what_waits_for_the_totals(store: RunStore) -> None:
    rows: list[dict[str, Any]] = [
        {"rollup": 0},
        {"rollup": 1},
        {"rollup": 1, "at": NOW - timedelta(minutes=5)},
        {"rollup": 2},
        {},
    ]
    await store.database["usage"].insert_many([{"at": NOW, **row} for row in rows])

    state = await read_ledger_counts(store.database)

    assert (state.open_calls, state.waiting_rows) == (1, 3)
    assert state.oldest_waiting_s == pytest.approx(age_s(NOW - timedelta(minutes=5)), abs=60)


async def test_an_empty_store_has_nothing_to_show(store: RunStore) -> None:
    snapshot = await snapshot_of(store)

    assert (dict(snapshot.runs), list(snapshot.usage)) == ({}, [])
    assert snapshot.queue == QueueCounts(queued=dict.fromkeys(("", "budget", "concurrency", "rate"), 0))
    assert (await read_ledger_counts(store.database)).oldest_waiting_s == 0


async def test_an_unprepared_store_is_empty(store: RunStore) -> None:
    """The exporter works before any other role has created indexes."""
    await store.database.client.drop_database(store.database.name)

    assert (await snapshot_of(store)).queue.queued[""] == 0
