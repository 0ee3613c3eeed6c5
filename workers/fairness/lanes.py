"""Lanes: whose run is next. Every app has a lane of its own, and they take turns.

A wake-up is a ticket to start one run, and does not say which: Redis keeps them in the order in which they came, so
that an app which sends ten thousand runs would stand in front of everybody else's one. Whoever holds a ticket takes
the first run of the next lane instead. There are as many tickets as ready runs, so each is claimed in the end.

1. Which lanes there are is asked of the store at most every `LOOK_EVERY_S`: one seek in the index for each app that
   waits, however long its backlog is.
2. The next lane is the one after the last, in order of names. Nothing is awaited in between, so runs that are claimed
   side by side in this process come from different apps.
3. A lane that turns out to be empty is forgotten until the next look. Before a ticket is thrown away, a look that
   began after the ticket came must have found nothing.
"""

import asyncio
import time
from collections.abc import Mapping

from pymongo import ASCENDING, DESCENDING

from workers.ownership import Ownership
from workers.run import Claim
from workers.run_store import RunStore

LOOK_EVERY_S = 0.03


class Lanes:
    def __init__(self, store: RunStore, ownership: Ownership) -> None:
        self._runs = store.runs
        self._ownership = ownership
        self._urgency: dict[str, int] = {}  # of the first run of each lane that is not known to be empty
        self._looked_at = float("-inf")
        self._looking = asyncio.Lock()
        self._last = ""

    async def next(self, wakeup: str) -> Claim | None:
        """A run to work on, ours from now on; None when nothing is ready."""
        came_at = time.monotonic()
        for since in (came_at - LOOK_EVERY_S, came_at):
            await self._look(since)
            while (lane := self._turn_of()) is not None:
                claim = await self._first_of(lane, wakeup)
                if claim is not None:
                    return claim
                self._urgency.pop(lane, None)
        return None

    async def _first_of(self, lane: str, wakeup: str) -> Claim | None:
        if len(self._urgency) > 1:
            return await self._ownership.claim_first(lane)
        return await self._ownership.claim_first(lane, preferred=wakeup, urgency=self._urgency.get(lane, 0))

    def _turn_of(self) -> str | None:
        if not self._urgency:
            return None
        self._last = min((lane for lane in self._urgency if lane > self._last), default=min(self._urgency))
        return self._last

    async def _look(self, since: float) -> None:
        if self._looked_at >= since:
            return
        async with self._looking:
            if self._looked_at >= since:
                return
            began = time.monotonic()
            found = await self._runs.aggregate(_FIRST_OF_EACH, hint="by_lane")
            self._urgency = {row["_id"]: row["urgency"] async for row in found}
            self._looked_at = began


# Answered by skipping through the index, a seek for each lane (DISTINCT_SCAN): the order is the index's own.
_FIRST_OF_EACH: list[Mapping[str, object]] = [
    {"$match": {"lane": {"$exists": True}}},
    {"$sort": {"lane": ASCENDING, "priority": DESCENDING, "_id": ASCENDING}},
    {"$group": {"_id": "$lane", "urgency": {"$first": "$priority"}}},
]
