"""Followed runs: queries for changes since a moment, each answered by an index."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from workers.store.run import RunState
from workers.store.run_document import Document
from workers.store.run_filter import RunFilter
from workers.store.run_store import WITHOUT_STEPS, RunStore

MAX_NEW = 2_000
AT_ONCE = 100


class FollowedRuns:
    def __init__(self, store: RunStore) -> None:
        self._database = store.database
        self._runs = store.runs
        self._turns = store.turns

    async def now(self) -> datetime:
        """Returns the time by the store's clock."""
        now: datetime = (await self._database.client.admin.command("hello"))["localTime"]
        return now.replace(tzinfo=UTC)

    async def find_moving(
        self,
        run_filter: RunFilter,
        fields: Sequence[str],
        *,
        since: datetime,
        ended: Collection[str],
        known: Collection[str],
    ) -> dict[str, Document]:
        """Finds runs that were accepted or reached a state of `ended` since then.

        Includes running runs and those that are `known`.
        """
        shape = run_filter.query()
        queries: list[Document] = [
            {**shape, "created_at": {"$gte": since}},
            {**shape, "state": {"$in": sorted(ended)}, "finished_at": {"$type": "date", "$gte": since}},
            replace(run_filter, states=(RunState.RUNNING,)).query(),
            {"_id": {"$in": list(known)}},
        ]
        found: dict[str, Document] = {}
        for query in queries:
            runs = await self._runs.find(query, dict.fromkeys(fields, 1)).limit(MAX_NEW).to_list(None)
            found |= {run["_id"]: run for run in runs}
        return found

    async def turns_between(self, ranges: Iterable[tuple[str, int, int]]) -> dict[str, list[dict[str, Any]]]:
        """Reads turns of several runs.

        `ranges`: run id, the last turn that was read, and the last counted turn.
        """
        queries = [
            {"run_id": run_id, "number": {"$gt": after, "$lte": up_to}}
            for run_id, after, up_to in ranges
            if up_to > after
        ]
        found: dict[str, list[dict[str, Any]]] = {}
        for start in range(0, len(queries), AT_ONCE):
            query = {"$or": queries[start : start + AT_ONCE]}
            async for turn in self._turns.find(query, WITHOUT_STEPS).sort([("run_id", 1), ("number", 1)]):
                found.setdefault(turn["run_id"], []).append(turn)
        return found
