"""Grouped commands on a real MongoDB: many share one, and each caller hears of its own part only."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from bson.errors import InvalidDocument
from pymongo.errors import AutoReconnect, DuplicateKeyError

from accounting.grouped import MOST_AT_ONCE, Grouped, each_written
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration


class Inserts:
    def __init__(self, store: RunStore) -> None:
        self._rows = store.database["rows"]
        self.sizes: list[int] = []
        self.grouped = Grouped(self._insert)

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


async def test_a_store_that_is_away_is_asked_once_for_all() -> None:
    asked: list[int] = []

    async def away(items: Sequence[int]) -> Sequence[Exception | None]:
        asked.append(len(items))
        raise AutoReconnect("gone")

    grouped: Grouped[int, None] = Grouped(away)
    answers = await asyncio.gather(*(grouped.do(number) for number in range(3)), return_exceptions=True)

    assert [type(answer) for answer in answers] == [AutoReconnect] * 3
    assert asked == [3]
