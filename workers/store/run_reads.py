"""Reads of runs and their turns, for operators: single runs, and lists, newest first."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

from pymongo import ASCENDING, DESCENDING
from pymongo.asynchronous.cursor import AsyncCursor

from workers.store.run import RunState
from workers.store.run_document import Document
from workers.store.run_filter import RunFilter
from workers.store.run_store import WITHOUT_STEPS, RunStore


class RunReads:
    def __init__(self, store: RunStore) -> None:
        self._runs = store.runs
        self._turns = store.turns

    async def find_fields(self, run_id: str, fields: Sequence[str], *, app_id: str | None = None) -> Document | None:
        """Reads only these fields, since a whole run may be megabytes.

        Returns None if this app has no such run.
        """
        return await self._runs.find_one(of_app(run_id, app_id), dict.fromkeys(fields, 1))

    async def find_by_ending(self, ending: str, *, app_id: str | None = None, limit: int = 2) -> list[str]:
        """Finds ids by their end. Scans the ids of all runs in the index, and reads no document."""
        query = {"_id": {"$regex": f"{ending}$"}} | ({} if app_id is None else {"app_id": app_id})
        return [run["_id"] async for run in self._runs.find(query, {"_id": 1}).limit(limit)]

    async def replays(self, run_id: str, *, dedupe_prefix: str, limit: int) -> list[Document]:
        """Finds the replays of a run by the prefix of their dedupe keys, so they need no index of their own."""
        within = {"$gte": dedupe_prefix, "$lt": dedupe_prefix[:-1] + chr(ord(dedupe_prefix[-1]) + 1)}
        query = {"dedupe_key": within, "replay_of": run_id}
        return await self._runs.find(query, {"state": 1, "created_at": 1}).to_list(limit)

    async def is_replay(self, run_id: str, *, of: str) -> bool:
        return await self._runs.find_one({"_id": run_id, "replay_of": of}, {"_id": 1}) is not None

    async def turn_fields(self, run_id: str, fields: Sequence[str], *, up_to: int) -> AsyncIterator[Document]:
        query = {"run_id": run_id, "number": {"$lte": up_to}}
        async for turn in self._turns.find(query, dict.fromkeys(fields, 1)).sort("number", ASCENDING):
            yield turn

    def turns_after(self, run_id: str, *, after: int, up_to: int, limit: int) -> AsyncCursor[dict[str, Any]]:
        query = {"run_id": run_id, "number": {"$lte": up_to, "$gt": after}}
        return self._turns.find(query, WITHOUT_STEPS).sort("number", ASCENDING).limit(limit)


def of_app(run_id: str, app_id: str | None) -> dict[str, Any]:
    return {"_id": run_id} if app_id is None else {"_id": run_id, "app_id": app_id}


class RunLists:
    def __init__(self, store: RunStore) -> None:
        self._runs = store.runs

    async def count(self, run_filter: RunFilter, *, up_to: int) -> int:
        return await self._runs.count_documents(run_filter.query(), limit=up_to)

    def newest(
        self,
        run_filter: RunFilter,
        fields: Sequence[str],
        *,
        limit: int,
        before: tuple[datetime, str] | None = None,
    ) -> AsyncCursor[dict[str, Any]]:
        """`before`: the time and the id of the run after which the list continues."""
        query = run_filter.query()
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
