"""Grouped commands on a real MongoDB: many share one, and each caller hears of its own part only."""

import asyncio
import gc
from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

import pymongo
import pytest
from bson.errors import InvalidDocument
from pymongo.errors import AutoReconnect, DuplicateKeyError

from accounting.grouped import MOST_AT_ONCE, Grouped, each_written
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration


class Inserts:
    def __init__(self, store: RunStore, *, forget_cancelled: bool = False) -> None:
        self._rows = store.database["rows"]
        self.sizes: list[int] = []
        self.grouped = Grouped(self._insert, forget_cancelled=forget_cancelled)

    async def _insert(self, rows: Sequence[dict[str, Any]]) -> Sequence[Exception | None]:
        self.sizes.append(len(rows))
        return await each_written(self._rows.insert_many(rows, ordered=False), len(rows))

    async def all(self, *rows: dict[str, Any]) -> list[Any]:
        return await asyncio.gather(*(self.grouped.do(row) for row in rows), return_exceptions=True)

    async def ids(self) -> list[Any]:
        return sorted(await self._rows.distinct("_id"))


async def test_what_comes_at_once_shares_a_command_and_nobody_waits_for_company(store: RunStore) -> None:
    inserts = Inserts(store)
    await inserts.grouped.do({"_id": -1})
    assert inserts.sizes == [1]

    assert await inserts.all(*({"_id": number} for number in range(MOST_AT_ONCE + 5))) == [None] * (MOST_AT_ONCE + 5)

    assert inserts.sizes == [1, MOST_AT_ONCE, 5]
    assert len(await inserts.ids()) == MOST_AT_ONCE + 6


async def test_each_caller_hears_of_its_own_part(store: RunStore) -> None:
    inserts = Inserts(store)
    await inserts.grouped.do({"_id": 2})

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
    cancelled = asyncio.create_task(inserts.grouped.do({"_id": 1}))
    await asyncio.sleep(0)
    cancelled.cancel()

    assert await inserts.all({"_id": 2}) == [None]

    assert cancelled.cancelled()
    assert await inserts.ids() == [1, 2]


async def test_what_a_cancelled_caller_wants_no_more_is_forgotten_where_that_is_said(store: RunStore) -> None:
    inserts = Inserts(store, forget_cancelled=True)
    cancelled = asyncio.create_task(inserts.grouped.do({"_id": 1}))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.sleep(0)

    assert await inserts.all({"_id": 2}) == [None]

    assert await inserts.ids() == [2]


async def test_a_deadline_of_one_caller_is_not_the_next_ones(store: RunStore) -> None:
    inserts = Inserts(store)
    with pymongo.timeout(0.001):
        hasty = asyncio.create_task(inserts.grouped.do({"_id": 1}))
        await asyncio.sleep(0)

    assert await inserts.all({"_id": 2}) == [None]
    await hasty
    assert await inserts.ids() == [1, 2]


async def test_a_store_that_is_away_is_asked_once_for_all() -> None:
    asked: list[int] = []

    async def away(items: Sequence[int]) -> Sequence[Exception | None]:
        asked.append(len(items))
        raise AutoReconnect("gone")

    grouped: Grouped[int, None] = Grouped(away)
    answers = await asyncio.gather(*(grouped.do(number) for number in range(3)), return_exceptions=True)

    assert [type(answer) for answer in answers] == [AutoReconnect] * 3
    assert asked == [3]


async def test_who_gives_up_while_a_command_hangs_leaves_nothing_behind() -> None:
    """A frozen store may take a minute to fail, and a gateway tells its callers so long before that."""
    thawed = asyncio.Event()

    async def hangs(deliveries: Sequence[Delivery]) -> Sequence[Exception | None]:
        await thawed.wait()
        return [None] * len(deliveries)

    kept: WeakSet[Delivery] = WeakSet()
    await all_give_up(Grouped(hangs, forget_cancelled=True), kept)
    await asyncio.sleep(0)  # the loop itself lets go of them

    gc.collect()
    assert 0 < len(kept) <= MOST_AT_ONCE, "those in the command"
    thawed.set()


async def all_give_up(grouped: "Grouped[Delivery, None]", kept: "WeakSet[Delivery]") -> None:
    async def send() -> None:
        delivery = Delivery()
        kept.add(delivery)
        await grouped.do(delivery)

    callers = [asyncio.create_task(send()) for _ in range(3 * MOST_AT_ONCE)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for caller in callers:
        caller.cancel()
    await asyncio.gather(*callers, return_exceptions=True)


class Delivery:
    """What may be a megabyte."""


async def test_callers_do_not_wait_for_ever_for_a_command_that_was_cut_off() -> None:
    """As by a loop that is being closed: those in the command, and those that came meanwhile."""
    under_way = asyncio.Event()

    async def hangs(_: Sequence[int]) -> Sequence[Exception | None]:
        under_way.set()
        await asyncio.Event().wait()
        return []

    grouped: Grouped[int, None] = Grouped(hangs)
    first = asyncio.create_task(grouped.do(1))
    await under_way.wait()
    second = asyncio.create_task(grouped.do(2))
    await asyncio.sleep(0)
    [working] = [task for task in asyncio.all_tasks() if task.get_name() == "grouped commands"]

    working.cancel()

    async with asyncio.timeout(5):
        answers = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(each) for each in answers] == [asyncio.CancelledError] * 2
