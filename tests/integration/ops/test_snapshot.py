"""The exporter's snapshot on a real MongoDB: every run is counted where it belongs, and once."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ops.exporter.snapshot import _queued_pipeline, take_snapshot
from workers.reconciling.retention import ROLLUPS
from workers.store.run import RunRequest, TriggerEvent
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

LATER = datetime.now(UTC) + timedelta(hours=5)


async def made(store: RunStore, number: int, **changes: Any) -> None:
    now = datetime.now(UTC)
    event = TriggerEvent("api", "test", str(number), fired_at=now)
    run_id = (await store.insert(RunRequest("acme", "Digest", event))).run_id
    await store.runs.update_one({"_id": run_id}, {"$set": {"created_at": now - timedelta(minutes=10), **changes}})


async def test_every_run_is_counted_by_its_state(store: RunStore) -> None:
    runs: list[dict[str, Any]] = [
        {"state": "succeeded", "outcome": {"kind": "completed"}},
        {"state": "succeeded", "outcome": {"kind": "completed"}},
        {"state": "failed", "outcome": {"kind": "timeout"}},
        {"state": "cancelled", "outcome": None},
        {"state": "parked", "outcome": {"kind": "worker_lost"}},
        {"state": "needs_human", "outcome": {"kind": "needs_human"}},
        {"state": "running"},
        {"state": "running"},
        {"state": "queued"},
        {"state": "queued", "not_before": LATER},
        {"state": "queued", "hold": "budget"},
    ]
    for number, changes in enumerate(runs):
        await made(store, number, **changes)

    snapshot = await take_snapshot(store.database)

    ended = {(row["_id"]["state"], row["_id"].get("outcome")): row["count"] for row in snapshot.runs}
    assert ended == {
        ("succeeded", "completed"): 2,
        ("failed", "timeout"): 1,
        ("cancelled", None): 1,
        ("parked", "worker_lost"): 1,
    }
    assert (snapshot.in_progress, snapshot.parked) == (2, 1)
    assert snapshot.queued == {"": 1, "budget": 1}
    assert snapshot.oldest_queued_age_s == pytest.approx(600, abs=60)


@pytest.mark.parametrize("waited_for", ["its turn", "its time"])
async def test_a_run_waits_for_workers_from_when_it_might_start(store: RunStore, waited_for: str) -> None:
    """Else each run of an order would raise an alarm, having been accepted long before its turn came."""
    now = datetime.now(UTC)
    if waited_for == "its turn":
        held = {"hold": "concurrency", "held_by": "order:acme/doc", "order": {"key": "acme/doc", "seq": "1"}}
        await made(store, 1, **held)
        assert await store.order.let_next_go("acme/doc", woken=True) is not None
    else:
        await made(store, 1, not_before=now)
        await store.runs.update_one({}, {"$unset": {"lane": 1}})

    assert (await take_snapshot(store.database)).oldest_queued_age_s < 60
    long_ago = now - timedelta(minutes=5)
    await store.runs.update_one({}, {"$set": {"ready_at": long_ago, "not_before": None}})
    assert (await take_snapshot(store.database)).oldest_queued_age_s == pytest.approx(300, abs=60)


async def test_what_was_rolled_up_counts_like_what_is_there(store: RunStore) -> None:
    await made(store, 1, state="succeeded", outcome={"kind": "completed"})
    key = {"app": "acme", "workflow": "Digest", "trigger": "api", "outcome": "completed"}
    await store.database[ROLLUPS].insert_one({"_id": key, "count": 41})

    rows = (await take_snapshot(store.database)).runs

    assert sum(row["count"] for row in rows) == 42
    assert {tuple(row["_id"].get(name) for name in key) for row in rows} == {tuple(key.values())}


async def test_the_queue_is_answered_by_an_index(store: RunStore) -> None:
    await made(store, 1)

    plan = await store.database.command(
        "explain", {"aggregate": "runs", "pipeline": _queued_pipeline(), "cursor": {}}, verbosity="queryPlanner"
    )

    assert "by_lane_and_wake_up" in str(plan)
    assert "COLLSCAN" not in str(plan)


async def test_an_empty_store_has_nothing_to_show(store: RunStore) -> None:
    snapshot = await take_snapshot(store.database)

    assert (list(snapshot.runs), list(snapshot.usage)) == ([], [])
    assert (snapshot.in_progress, snapshot.parked, snapshot.oldest_queued_age_s) == (0, 0, 0.0)
