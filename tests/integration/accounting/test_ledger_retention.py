"""Ledger retention on a real MongoDB: rows go hour by hour, totals stay."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo import MongoClient

from accounting.ledger.ledger_retention import LedgerRetention
from accounting.ledger.ledger_rows import COLLECTION
from accounting.totals.roll_up import RollUp
from accounting.totals.row_sums import HOURS, STATE, hour_of
from accounting.totals.totals_rebuild import ensure_indexes, find_differences, rebuild
from accounting.totals.usage_query import UsageFilter, usage_totals
from accounting.usage import UsageTotals
from tests.integration.accounting.ledger_rows import insert_rows, random_rows
from workers.settings import Settings
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

KEEP = timedelta(days=2)
NOW = datetime.now(UTC)
OLD = hour_of(NOW) - timedelta(days=3)


@pytest.fixture
async def aged(store: RunStore) -> RunStore:
    """Rows of three days ago and of now, all in the totals."""
    await insert_rows(store, random_rows(120, seed=21, since=OLD, over=timedelta(hours=3)))
    await insert_rows(store, random_rows(40, seed=22, since=NOW - timedelta(hours=1), over=timedelta(minutes=30)))
    await RollUp(store.database).run_pass()
    return store


async def prune(store: RunStore) -> int:
    counts: Counter[str] = Counter()
    for _ in range(5):
        await LedgerRetention(store.database, KEEP).run_pass(counts)
    return counts["pruned"]


async def totals(store: RunStore) -> list[list[UsageTotals]]:
    wanted: list[tuple[list[str], UsageFilter]] = [
        ([], UsageFilter()),
        (["app_id"], UsageFilter()),
        (["day"], UsageFilter(since=OLD + timedelta(hours=1))),
        (["app_id"], UsageFilter(until=NOW - timedelta(hours=12))),
    ]
    return [await usage_totals(store.database, keys, which) for keys, which in wanted]


async def ages(store: RunStore) -> set[bool]:
    return {row["at"] < NOW - KEEP async for row in store.database[COLLECTION].find()}


async def test_old_rows_go_and_totals_stay_also_when_they_are_rebuilt(aged: RunStore) -> None:
    before = await totals(aged)

    assert await prune(aged) == 120

    assert await ages(aged) == {False}
    assert await totals(aged) == before
    assert await find_differences(aged.database) == []
    assert await rebuild(aged.database) == 0
    assert await totals(aged) == before


async def test_rows_that_go_while_totals_are_rebuilt_take_nothing_with_them(aged: RunStore, settings: Settings) -> None:
    before = await totals(aged)
    with MongoClient[dict[str, Any]](settings.mongodb_url) as client:
        database = client[settings.database]

        def prune_meanwhile(done: int, _of: int) -> None:
            if done == 1:
                kept_since = OLD + timedelta(hours=3)
                database[STATE].update_one({}, {"$set": {"kept_since": kept_since}})
                database[COLLECTION].delete_many({"at": {"$lt": kept_since}})

        assert await rebuild(aged.database, prune_meanwhile) == 0

    assert await totals(aged) == before


@pytest.mark.parametrize("keep", [KEEP, timedelta(0)])
async def test_totals_of_deleted_rows_stay_even_if_the_deletion_is_forgotten(aged: RunStore, keep: timedelta) -> None:
    before = await totals(aged)
    await aged.database[COLLECTION].delete_many({"at": {"$lt": NOW - keep}})
    await aged.database[STATE].drop()

    for _ in range(2):
        await RollUp(aged.database).run_pass()

    assert await totals(aged) == before
    assert await find_differences(aged.database) == []


async def test_a_time_within_an_hour_of_deleted_rows_counts_from_its_beginning(aged: RunStore) -> None:
    whole = await usage_totals(aged.database, [], UsageFilter(since=OLD + timedelta(hours=1)))
    await prune(aged)

    assert await usage_totals(aged.database, [], UsageFilter(since=OLD + timedelta(hours=1, minutes=30))) == whole


async def test_the_first_hour_whose_rows_are_kept_is_compared_and_corrected(store: RunStore) -> None:
    await insert_rows(store, random_rows(60, seed=24, since=OLD, over=timedelta(minutes=50)))
    await RollUp(store.database).run_pass()
    await store.database[STATE].update_one({}, {"$set": {"kept_since": OLD}})
    await store.database[HOURS].update_one({"hour": OLD}, {"$inc": {"calls": 3}})

    assert {(each.hour, each.kept - each.right) for each in await find_differences(store.database)} == {
        (OLD, 3),
        (None, -3),
    }
    assert await rebuild(store.database) == 1
    assert await find_differences(store.database) == []


@pytest.mark.parametrize("mark", [0, 1, 2])
async def test_an_hour_with_rows_that_are_in_no_total_yet_is_kept(aged: RunStore, mark: int) -> None:
    first = await aged.database[COLLECTION].find_one({}, sort=[("at", 1)])
    assert first is not None
    await aged.database[COLLECTION].update_one({"_id": first["_id"]}, {"$set": {"rollup": mark}})

    assert await prune(aged) == 0


async def test_rows_that_come_late_do_not_bring_back_hours_whose_rows_are_gone(aged: RunStore) -> None:
    """A worker that slept for days records its call in an hour before the last one that was pruned."""
    await prune(aged)
    await insert_rows(aged, random_rows(5, seed=25, since=OLD, over=timedelta(minutes=50)))
    await RollUp(aged.database).run_pass()
    before = await totals(aged)

    assert await prune(aged) == 5

    assert await rebuild(aged.database) == 0
    assert await totals(aged) == before


async def test_a_row_that_is_corrected_while_its_hour_goes_is_added_first(aged: RunStore) -> None:
    row = await aged.database[COLLECTION].find_one({}, sort=[("at", 1)])
    assert row is not None
    row_id = row["_id"]

    class Corrected(LedgerRetention):
        async def _record_kept_since(self, kept_since: datetime) -> bool:
            await aged.database[COLLECTION].update_one({"_id": row_id}, {"$set": {"rollup": 1}})
            return await super()._record_kept_since(kept_since)

    await Corrected(aged.database, KEEP).run_pass(Counter())

    assert await aged.database[COLLECTION].find_one({"_id": row_id}) is not None


async def test_nothing_goes_before_there_are_totals(store: RunStore) -> None:
    old: list[dict[str, Any]] = random_rows(20, seed=23, since=OLD, over=timedelta(hours=1))
    await insert_rows(store, ({name: value for name, value in row.items() if name != "rollup"} for row in old))
    await ensure_indexes(store.database)

    assert await prune(store) == 0
