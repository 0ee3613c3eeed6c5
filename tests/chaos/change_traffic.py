"""Changing: documents are inserted and changed, each change of one with the next number, by writers side by side."""

import asyncio
import contextlib
import random
from typing import Any

from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import DuplicateKeyError, PyMongoError

from accounting.infra.store_errors import is_unavailable

Change = tuple[int, int | None]  # the document, and its number; None for its insert


async def write_changes(
    orders: AsyncCollection[dict[str, Any]], events: int, documents: int, *, seed: int, writers: int
) -> set[Change]:
    """What was written: so many events, and each of them majority-acknowledged."""

    async def write(writer: int) -> set[Change]:
        chance, newest, made = random.Random(seed + writer), dict[int, int](), set[Change]()
        for _ in range(events // writers):
            order = chance.randrange(writer, documents, writers)
            newest[order] = newest.get(order, -1) + 1
            await _write_until_confirmed(orders, order, newest[order])
            made.add((order, newest[order] or None))
        return made

    return set().union(*await asyncio.gather(*(write(writer) for writer in range(writers))))


async def _write_until_confirmed(orders: AsyncCollection[dict[str, Any]], order: int, n: int) -> None:
    """Once, however often it is sent: the driver itself tries only twice, and an election may take longer. A primary
    that steps down in the middle of a write says so in the write's own error, which the driver does not try again."""
    while True:
        try:
            await _write(orders, order, n)
        except PyMongoError as error:
            if not is_unavailable(error):
                raise
            await asyncio.sleep(0.05)
        else:
            return


async def _write(orders: AsyncCollection[dict[str, Any]], order: int, n: int) -> None:
    if n:
        await orders.update_one({"_id": order}, {"$set": {"n": n}})
        return
    with contextlib.suppress(DuplicateKeyError):
        await orders.insert_one({"_id": order})
