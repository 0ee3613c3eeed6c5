"""Start rates: the time of the next start of an app, in one small document for each app with a rate.

Starts are spaced evenly, and a start may be up to `MAX_EARLY_S` early: `600/m` allows eleven starts at once after a
pause and then ten in each second, `1/m` one in each minute. In any period there are at most as many starts as the rate
allows for that period and one more second, plus one.

The document stores the time of the next start (GCRA). It is read and moved in one write, by the database's clock. A
worker that dies after it leaves one start unused. The time is never further ahead than one start, so neither a clock
that was set back nor an older, slower rate delays an app.
"""

import math
from collections.abc import Collection, Mapping

from pymongo import ReturnDocument
from pymongo.asynchronous.database import AsyncDatabase

from workers.store.rate import Rate
from workers.store.run_document import Document

# Held runs are released once a second. Without this, starts that became due in between would be lost.
MAX_EARLY_S = 1.0
_NOW_MS: Document = {"$toDouble": {"$toLong": "$$NOW"}}


class StartRates:
    def __init__(self, database: AsyncDatabase[Document]) -> None:
        self._rates = database["rates"]

    async def try_acquire(self, app_id: str, rate: Rate) -> bool:
        """Takes one start if the rate allows it; returns whether it did."""
        interval_ms, early_ms = rate.interval_s * 1000, MAX_EARLY_S * 1000
        due = {"$max": [{"$ifNull": ["$due_ms", 0]}, _NOW_MS]}
        steps: list[Document] = [
            {"$set": {"due_ms": {"$min": [due, {"$add": [_NOW_MS, early_ms + interval_ms]}]}}},
            {"$set": {"granted": {"$lte": ["$due_ms", {"$add": [_NOW_MS, early_ms]}]}}},
            {"$set": {"due_ms": {"$add": ["$due_ms", {"$cond": ["$granted", interval_ms, 0]}]}}},
        ]
        after = await self._rates.find_one_and_update(
            {"_id": app_id}, steps, upsert=True, return_document=ReturnDocument.AFTER
        )
        return after is not None and after["granted"] is True

    async def count_free_starts(self, rates: Mapping[str, Rate]) -> Mapping[str, int]:
        """Counts the runs of these apps that could start now."""
        ahead_ms = await self._read_ahead_ms(rates.keys())
        return {app_id: free_starts(ahead_ms.get(app_id, 0) / 1000, rate) for app_id, rate in rates.items()}

    async def _read_ahead_ms(self, app_ids: Collection[str]) -> Mapping[str, float]:
        ahead = {"$subtract": ["$due_ms", _NOW_MS]}
        found = await self._rates.aggregate([{"$match": {"_id": {"$in": [*app_ids]}}}, {"$project": {"ahead": ahead}}])
        return {row["_id"]: row["ahead"] async for row in found}


def free_starts(ahead_s: float, rate: Rate) -> int:
    """Returns how many runs may start at once, if the next start is due in `ahead_s`."""
    ahead_s = max(min(ahead_s, MAX_EARLY_S + rate.interval_s), 0)
    return max(math.floor((MAX_EARLY_S - ahead_s) / rate.interval_s) + 1, 0)
