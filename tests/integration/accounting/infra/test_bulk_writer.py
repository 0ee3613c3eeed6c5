"""The bulk writer on a real MongoDB: many share a command, each gets its own result."""

import asyncio
import gc
from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

import pymongo
import pytest
from bson.errors import InvalidDocument
from pymongo.errors import AutoReconnect, DuplicateKeyError

from accounting.infra.bulk_writer import MAX_ITEMS_PER_COMMAND, BulkWriter, collect_bulk_errors
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration


class Inserts:
    def __init__(self, store: RunStore, *, forget_cancelled: bool = False) -> None:
        self._rows = store.database["rows"]
        self.sizes: list[int] = []
        self.grouped = BulkWriter(self._insert, drop_cancelled=forget_cancelled)

    async def _insert(self, rows: Sequence[dict[str, Any]]) -> Sequence[Exception | None]:
        self.sizes.append(len(rows))
        return await collect_bulk_errors(self._rows.insert_many(rows, ordered=False), len(rows))

    async def all(self, *rows: dict[str, Any]) -> list[Any]:
        return await asyncio.gather(*(self.grouped.submit(row) for row in rows), return_exceptions=True)

    async def ids(self) -> list[Any]:
        return sorted(await self._rows.distinct("_id"))


async def test_concurrent_items_share_a_command_and_a_lone_one_never_waits(store: RunStore) -> None:
    inserts = Inserts(store)
    await inserts.grouped.submit({"_id": -1})
    assert inserts.sizes == [1]

    assert await inserts.all(*({"_id": number} for number in range(MAX_ITEMS_PER_COMMAND + 5))) == [None] * (
        MAX_ITEMS_PER_COMMAND + 5
    )

    assert inserts.sizes == [1, MAX_ITEMS_PER_COMMAND, 5]
    assert len(await inserts.ids()) == MAX_ITEMS_PER_COMMAND + 6


async def test_each_caller_gets_the_result_of_its_own_part(store: RunStore) -> None:
    inserts = Inserts(store)
    await inserts.grouped.submit({"_id": 2})

    answers = await inserts.all({"_id": 1}, {"_id": 2}, {"_id": 3})

    assert [type(answer) for answer in answers] == [type(None), DuplicateKeyError, type(None)]
    assert await inserts.ids() == [1, 2, 3]


async def test_a_part_that_cannot_be_sent_keeps_no_other_from_it(store: RunStore) -> None:
    inserts = Inserts(store)

    answers = await inserts.all({"_id": 1}, {"_id": 2, "unknown": object()}, {"_id": 3})

    assert [type(answer) for answer in answers] == [type(None), InvalidDocument, type(None)]
    assert await inserts.ids() == [1, 3]


async def test_what_a_cancelled_caller_leaves_is_done_all_the_same(store: RunStore) -> None:
    inserts = Inserts(store)
    cancelled = asyncio.create_task(inserts.grouped.submit({"_id": 1}))
    await asyncio.sleep(0)
    cancelled.cancel()

    assert await inserts.all({"_id": 2}) == [None]

    assert cancelled.cancelled()
    assert await inserts.ids() == [1, 2]


async def test_the_item_of_a_cancelled_caller_is_dropped_where_configured(store: RunStore) -> None:
    inserts = Inserts(store, forget_cancelled=True)
    cancelled = asyncio.create_task(inserts.grouped.submit({"_id": 1}))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.sleep(0)

    assert await inserts.all({"_id": 2}) == [None]

    assert await inserts.ids() == [2]


async def test_a_deadline_of_one_caller_is_not_the_next_ones(store: RunStore) -> None:
    inserts = Inserts(store)
    with pymongo.timeout(0.001):
        hasty = asyncio.create_task(inserts.grouped.submit({"_id": 1}))
        await asyncio.sleep(0)

    assert await inserts.all({"_id": 2}) == [None]
    await hasty
    assert await inserts.ids() == [1, 2]


async def test_a_store_that_is_away_is_asked_once_for_all() -> None:
    asked: list[int] = []

    async def away(items: Sequence[int]) -> Sequence[Exception | None]:
        asked.append(len(items))
        raise AutoReconnect("gone")

    grouped: BulkWriter[int, None] = BulkWriter(away)
    answers = await asyncio.gather(*(grouped.submit(number) for number in range(3)), return_exceptions=True)

    assert [type(answer) for answer in answers] == [AutoReconnect] * 3
    assert asked == [3]


async def test_a_caller_that_gives_up_during_a_hanging_command_leaves_nothing() -> None:
    """A frozen store may take a minute to fail; gateways answer long before."""
    thawed = asyncio.Event()

    async def hangs(deliveries: Sequence[Delivery]) -> Sequence[Exception | None]:
        await thawed.wait()
        return [None] * len(deliveries)

    kept: WeakSet[Delivery] = WeakSet()
    await submit_and_cancel_all(BulkWriter(hangs, drop_cancelled=True), kept)
    await asyncio.sleep(0)  # the loop itself cancels them

    gc.collect()
    assert 0 < len(kept) <= MAX_ITEMS_PER_COMMAND, "those in the command"
    thawed.set()


async def submit_and_cancel_all(grouped: "BulkWriter[Delivery, None]", pending: "WeakSet[Delivery]") -> None:
    async def send() -> None:
        delivery = Delivery()
        pending.add(delivery)
        await grouped.submit(delivery)

    callers = [asyncio.create_task(send()) for _ in range(3 * MAX_ITEMS_PER_COMMAND)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for caller in callers:
        caller.cancel()
    await asyncio.gather(*callers, return_exceptions=True)


class Delivery:
    """An item that may be a megabyte."""


async def test_callers_do_not_wait_for_ever_for_a_command_that_was_cut_off() -> None:
    """As by a loop that closes: those in the command, and those that came meanwhile."""
    under_way = asyncio.Event()

    async def hangs(_: Sequence[int]) -> Sequence[Exception | None]:
        under_way.set()
        await asyncio.Event().wait()
        return []

    grouped: BulkWriter[int, None] = BulkWriter(hangs)
    first = asyncio.create_task(grouped.submit(1))
    await under_way.wait()
    second = asyncio.create_task(grouped.submit(2))
    await asyncio.sleep(0)
    [working] = [task for task in asyncio.all_tasks() if task.get_name() == "grouped commands"]

    working.cancel()

    async with asyncio.timeout(5):
        answers = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(answer) for answer in answers] == [asyncio.CancelledError] * 2
