"""Due runs: queued runs whose time has come, and ready runs that were not claimed in time."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from pymongo import DESCENDING

from workers.store.run import RunState
from workers.store.run_batches import BATCH, RunQuery
from workers.store.run_document import NOT_READY, READY, Document
from workers.store.run_store import RunStore
from workers.store.run_transitions import source_states

_FIELDS = ("app_id", "workflow", "state", "lane", "wake_at", "wakes", "not_before", "last_requeue")
_FREE: Document = {"state": {"$in": source_states(RunState.RUNNING)}, "hold": None}
NOT_LISTED = RunQuery(
    {
        "state": RunState.QUEUED.value,
        "hold": None,
        "lane": None,
        # null sorts before every date, so a run without `not_before` is always due
        "$expr": {"$and": [{"$lte": ["$wake_at", "$$NOW"]}, {"$lte": ["$not_before", "$$NOW"]}]},
    },
    sort="wake_at",
    index="by_lane_and_wake_up",
)
NOT_CLAIMED = RunQuery(
    {"lane": {"$exists": True}, "$expr": {"$lte": ["$wake_at", "$$NOW"]}}, sort="wake_at", index="by_ticket"
)


class DueRuns:
    def __init__(self, store: RunStore, *, republish_after_s: int) -> None:
        self._runs = store.runs
        self._republish_after_ms = republish_after_s * 1000

    def batches(self, due: RunQuery, *, limit: int) -> AsyncIterator[Sequence[Document]]:
        """Yields batches. `due` is NOT_LISTED for runs in no lane, or NOT_CLAIMED for ready ones."""
        return due.batches(self._runs, _FIELDS, limit=limit)

    async def has_unclaimed(self) -> bool:
        return await self._runs.find_one(NOT_CLAIMED.query, {"_id": 1}, hint=NOT_CLAIMED.index) is not None

    async def count_ready(self, *, up_to: int) -> int:
        return await self._runs.count_documents({"lane": {"$gte": ""}}, limit=up_to, hint="by_lane")

    async def mark_woken(self, run: Document, due: RunQuery) -> bool:
        """Counts the wake-up, and makes the run ready if it is in no lane.

        Returns False if the run has changed since it was read.
        """
        wake_at = {"$add": ["$$NOW", self._republish_after_ms]}
        seen = {**due.query, **_FREE, "_id": run["_id"], "wake_at": run["wake_at"]}
        change: Document = {"wake_at": wake_at, "wakes": {"$add": ["$wakes", 1]}}
        if due is NOT_LISTED:
            change |= READY
        return (await self._runs.update_one(seen, [{"$set": change}])).matched_count > 0

    async def take_out_of_lane(self, run: Document) -> bool:
        """Takes a run that is not queued out of its lane: a worker of a version without lanes has claimed it."""
        left = {"_id": run["_id"], "state": {"$ne": RunState.QUEUED.value}, "lane": {"$exists": True}}
        return (await self._runs.update_one(left, [{"$set": NOT_READY}])).matched_count > 0

    async def correct_late_wake_ups(self) -> int:
        """Moves wake-ups that a process with a fast clock has set too late.

        Returns how many.
        """
        soon = {"$add": ["$$NOW", self._republish_after_ms]}
        late = {"$gt": ["$wake_at", {"$add": ["$$NOW", 2 * self._republish_after_ms]}]}
        latest: list[dict[str, Any]] = [
            {"$match": {"lane": {"$exists": True}}},
            {"$sort": {"wake_at": DESCENDING}},
            {"$limit": BATCH},
            {"$match": {"$expr": late}},
            {"$project": {"_id": 1}},
        ]
        run_ids = [run["_id"] async for run in await self._runs.aggregate(latest, hint=NOT_CLAIMED.index)]
        if not run_ids:
            return 0
        far_off = {"_id": {"$in": run_ids}, "lane": {"$exists": True}, "$expr": late}
        return (await self._runs.update_many(far_off, [{"$set": {"wake_at": soon}}])).modified_count
