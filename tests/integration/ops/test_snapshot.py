"""The exporter's snapshot on a real MongoDB: every run is counted where it belongs, and once."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ops.exporter.snapshot import take_snapshot
from workers.run import RunRequest, TriggerEvent
from workers.run_store import RunStore

pytestmark = pytest.mark.integration

NOW = datetime.now(UTC)
LATER = NOW + timedelta(hours=1)


async def made(store: RunStore, number: int, **changes: Any) -> None:
    event = TriggerEvent("api", "test", str(number), fired_at=NOW)
    run_id = (await store.insert(RunRequest("acme", "Digest", event))).run_id
    await store.runs.update_one({"_id": run_id}, {"$set": {"created_at": NOW - timedelta(minutes=10), **changes}})


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


async def test_an_empty_store_has_nothing_to_show(store: RunStore) -> None:
    snapshot = await take_snapshot(store.database)

    assert (list(snapshot.runs), list(snapshot.usage)) == ([], [])
    assert (snapshot.in_progress, snapshot.parked, snapshot.oldest_queued_age_s) == (0, 0, 0.0)
