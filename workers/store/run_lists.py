"""Lists of runs, newest first, and counts of them, for pages."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pymongo import ASCENDING, DESCENDING
from pymongo.asynchronous.cursor import AsyncCursor

from workers.store.run import RunState
from workers.store.run_document import Document
from workers.store.run_filter import RunFilter
from workers.store.run_store import RunStore


class RunLists:
    def __init__(self, store: RunStore) -> None:
        self._runs = store.runs

    async def count(self, matching: RunFilter, *, up_to: int) -> int:
        return await self._runs.count_documents(matching.query(), limit=up_to)

    def newest(
        self,
        matching: RunFilter,
        fields: Sequence[str],
        *,
        limit: int,
        before: tuple[datetime, str] | None = None,
    ) -> AsyncCursor[dict[str, Any]]:
        """`before`: the time and the id of the run after which the list continues."""
        query = matching.query()
        if before is not None:
            query["$and"] = [_accepted_before(*before)]
        newest_first = [("created_at", DESCENDING), ("_id", DESCENDING)]
        return self._runs.find(query, dict.fromkeys(fields, 1)).sort(newest_first).limit(limit)

    async def longest_waiting(self, app_id: str | None, fields: Sequence[str], *, limit: int) -> list[Document]:
        """Lists the runs that wait for a person, longest first.

        Each wait began at the end of its turn.
        """
        query = {**RunFilter(app_id=app_id, states=(RunState.NEEDS_HUMAN,)).query(), "finished_at": {"$type": "date"}}
        found = self._runs.find(query, dict.fromkeys(fields, 1)).sort("finished_at", ASCENDING)
        return await found.limit(limit).to_list(None)


def _accepted_before(at: datetime, run_id: str) -> Document:
    same_time = {"created_at": at, "_id": {"$lt": run_id}}
    return {"created_at": {"$lte": at}, "$or": [{"created_at": {"$lt": at}}, same_time]}
