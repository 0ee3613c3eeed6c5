"""Retention on a real MongoDB: deleted and kept runs, with unchanged counters."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from accounting.infra.aio import gather_all
from accounting.ledger.ledger import Ledger
from accounting.prices import PriceTable
from accounting.usage import ModelCall, RunOwner, Tokens
from ops.exporter.store_snapshot import SnapshotReader
from workers.reconciler.run_retention import PRUNED, RunRetention
from workers.settings import Settings
from workers.store.ended_counts import RunLabels
from workers.store.run import RunRequest, TriggerEvent
from workers.store.run_document import run_document
from workers.store.run_pruner import ROLLUPS, expired_query
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

KEEP = timedelta(days=30)
NOW = datetime.now(UTC)
OLD = NOW - timedelta(days=31)
A_YEAR_AGO = NOW - timedelta(days=365)


def _document(number: int, **changes: Any) -> dict[str, Any]:
    event = TriggerEvent("api", "test", str(number), fired_at=NOW)
    document = run_document(RunRequest(f"app{number % 3}", "Digest", event), now=NOW, republish_after=timedelta(0))
    del document["lane"]
    return {**document, "outcome": {"kind": "completed"}, "finished_at": OLD, "state": "succeeded", **changes}


async def _insert_run(store: RunStore, number: int, **changes: Any) -> str:
    document = _document(number, **changes)
    await store.runs.insert_one(document)
    turns = range(1, document["turn"] + 1)
    if turns:
        run_id = document["_id"]
        await store.turns.insert_many([{"_id": f"{run_id}:{n}", "run_id": run_id, "number": n} for n in turns])
    return str(document["_id"])


async def _prune_all(store: RunStore, **limits: int) -> int:
    counts: Counter[str] = Counter()
    await RunRetention(store, KEEP, **limits).run_pass(counts)
    return counts[PRUNED]


async def _counters(store: RunStore) -> Counter[RunLabels]:
    """Returns the samples of `unattended_runs_total`."""
    return Counter((await SnapshotReader(store.database).read()).runs)


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled"])
async def test_what_ended_long_ago_goes_with_its_turns_and_stays_counted(store: RunStore, state: str) -> None:
    run_id = await _insert_run(store, 1, state=state, turn=3, outcome={"kind": "timeout"})
    before = await _counters(store)

    assert await _prune_all(store) == 1

    assert await store.find(run_id) is None
    assert await store.turns.count_documents({}) == 0
    assert await _counters(store) == before == {RunLabels("app1", "Digest", "api", "timeout"): 1}


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "parked", "finished_at": A_YEAR_AGO},
        {"state": "needs_human", "finished_at": A_YEAR_AGO},
        {"state": "queued", "finished_at": None, "created_at": A_YEAR_AGO},
        {"state": "running", "finished_at": None, "created_at": A_YEAR_AGO},
        {"state": "succeeded", "finished_at": NOW - timedelta(days=29)},
        {"state": "failed", "finished_at": None},
    ],
    ids=["parked", "needs_human", "queued", "running", "ended lately", "without an end"],
)
async def test_what_is_not_over_or_not_old_stays(store: RunStore, changes: dict[str, Any]) -> None:
    run_id = await _insert_run(store, 1, turn=2, **changes)

    assert await _prune_all(store) == 0

    assert await store.find(run_id) is not None
    assert await store.turns.count_documents({}) == 2


async def test_the_ledger_and_the_runs_that_point_to_a_pruned_one_stay(store: RunStore) -> None:
    old = await _insert_run(store, 1)
    replay = await _insert_run(store, 2, replay_of=old, finished_at=NOW)
    ledger = Ledger(store.database, PriceTable())
    call = ModelCall(1, "A", "p", "m", Tokens(input=1), "reported", ok=True, started_at=OLD, duration_s=0.1)
    await ledger.record(RunOwner(old, "app1", None, old, "Digest", "api"), lease_token=1, call=call)

    assert await _prune_all(store) == 1

    assert await store.find(replay) is not None
    assert await store.database["usage"].count_documents({"run_id": old}) == 1


async def test_a_pass_is_bounded_by_runs_and_by_turns(store: RunStore) -> None:
    ages = [OLD - timedelta(days=10 - number) for number in range(10)]
    run_ids = [await _insert_run(store, n, finished_at=at, turn=3 if n < 2 else 0) for n, at in enumerate(ages)]

    # The turns of the second run would exceed the first batch.
    assert await _prune_all(store, max_batches=2, batch_size=4, max_turns=5) == 1 + 4

    left = await store.runs.find({}, {"_id": 1}).sort("finished_at", 1).to_list(None)
    assert [run["_id"] for run in left] == run_ids[5:]


async def test_it_costs_what_is_old_not_what_exists(store: RunStore) -> None:
    await gather_all(_insert_run(store, number, finished_at=NOW) for number in range(20))

    plan = await store.runs.find(expired_query(KEEP), hint="by_end").sort("finished_at", 1).explain()

    assert plan["executionStats"]["totalDocsExamined"] == 0
    assert "'SORT'" not in str(plan["queryPlanner"]["winningPlan"])


@asynccontextmanager
async def _forgetting_dead_clients_soon(store: RunStore) -> AsyncIterator[None]:
    """Shortens the lifetime of transactions.

    By default the transaction of a dead client locks its documents for a minute.
    """
    name, admin = "transactionLifetimeLimitSeconds", store.database.client["admin"]
    before = (await admin.command({"getParameter": 1, name: 1}))[name]
    await admin.command({"setParameter": 1, name: 1})
    try:
        yield
    finally:
        await admin.command({"setParameter": 1, name: before})


async def test_counters_hold_still_while_several_prune_and_one_is_killed(store: RunStore, settings: Settings) -> None:
    outcomes: list[dict[str, Any] | None] = [{"kind": "completed"}, {"kind": "timeout"}, None]
    count = 600
    documents = [_document(n, outcome=outcomes[n % 3], turn=2) for n in range(count)]
    await store.runs.insert_many(documents)
    turns = [{"_id": f"{run['_id']}:{n}", "run_id": run["_id"], "number": n} for run in documents for n in (1, 2)]
    await store.turns.insert_many(turns)
    parked = await _insert_run(store, count, state="parked", finished_at=A_YEAR_AGO, turn=1)
    before = await _counters(store)

    async def prune() -> int:
        total = 0
        while await store.runs.find_one(expired_query(KEEP), {"_id": 1}) is not None:
            total += await _prune_all(store, batch_size=25)
        return total

    async def watch() -> int:
        looks = 0
        while await store.runs.find_one(expired_query(KEEP), {"_id": 1}) is not None:
            assert await _counters(store) == before
            looks += 1
        return looks

    async with _forgetting_dead_clients_soon(store):
        module = (sys.executable, "-m", "tests.integration.workers.killed_pruner")
        where = (settings.mongodb_url or "", settings.database)
        process = await asyncio.create_subprocess_exec(*module, *where, stdout=PIPE)
        assert process.stdout is not None
        assert await process.stdout.readline() == b"in the middle\n"
        assert await process.wait() < 0
        assert await store.runs.count_documents({}) == count + 1
        *pruned, looks = await asyncio.wait_for(gather_all([prune(), prune(), prune(), watch()]), 60)

    assert sum(pruned) == count
    assert looks > 0
    assert await _counters(store) == before
    assert await store.runs.distinct("_id") == [parked]
    assert await store.turns.distinct("run_id") == [parked]
    rolled_up = await store.database[ROLLUPS].find().to_list(None)
    assert sum(each["count"] for each in rolled_up) == count
