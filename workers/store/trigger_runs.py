"""Runs of triggers: unfinished ones, known events, and runs that overlap the next one."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from workers.store.run import UNFINISHED
from workers.store.run_document import Document
from workers.store.run_store import RunStore

_BY_TRIGGER = "by_trigger_and_state"
_UNFINISHED = sorted(state.value for state in UNFINISHED)

TriggerAndApp = tuple[str, str]


class TriggerRuns:
    def __init__(self, store: RunStore, *, backfill_prefix: str = "") -> None:
        """Runs whose correlation id begins with `backfill_prefix` do not count for overlap."""
        self._runs = store.runs
        is_backfill = re.compile(f"^{re.escape(backfill_prefix)}")
        self._no_backfill: Document = {"correlation_id": {"$not": is_backfill}} if backfill_prefix else {}

    async def known_keys(self, dedupe_keys: Iterable[str]) -> set[str]:
        """Returns the dedupe keys that have a run already, with one query on an index alone."""
        keys = {"$in": list(dedupe_keys)}
        return {run["dedupe_key"] async for run in self._runs.find({"dedupe_key": keys}, {"_id": 0, "dedupe_key": 1})}

    async def count_known(self, dedupe_keys: Sequence[str]) -> int:
        return await self._runs.count_documents({"dedupe_key": {"$in": list(dedupe_keys)}})

    async def count_unfinished(
        self,
        workflow: str,
        *,
        triggers: Collection[str],
        apps: Collection[str],
        beside: Collection[str] | None = None,
    ) -> Mapping[TriggerAndApp, int]:
        """Counts queued and running runs by trigger and app.

        `beside`: dedupe keys to leave out. Backfills are not counted.
        """
        only: Document = {}
        if beside is not None:
            only = {"dedupe_key": {"$nin": list(beside)}, **self._no_backfill}
        query: dict[str, Any] = {
            "workflow": workflow,
            "trigger.name": {"$in": sorted(triggers)},
            "app_id": {"$in": sorted(apps)},
            "state": {"$in": _UNFINISHED},
            **only,
        }
        pipeline: list[Mapping[str, object]] = [
            {"$match": query},
            {"$group": {"_id": {"trigger": "$trigger.name", "app": "$app_id"}, "runs": {"$sum": 1}}},
        ]
        async with await self._runs.aggregate(pipeline, hint=_BY_TRIGGER) as places:
            return {(place["_id"]["trigger"], place["_id"]["app"]): place["runs"] async for place in places}

    async def find_earlier(
        self, workflow: str, trigger: str, app_id: str, *, other_than: str, nominal: datetime | None, limit: int
    ) -> list[str]:
        """Finds unfinished runs that were started by hand, or for this nominal time or an earlier one.

        A scheduler that was stopped for a while must not cancel newer ones. Backfills are left out.
        """
        before = {
            "workflow": workflow,
            "trigger.name": trigger,
            "app_id": app_id,
            "state": {"$in": _UNFINISHED},
            "dedupe_key": {"$ne": other_than},
            **self._no_backfill,
            "trigger.nominal_at": {"$not": {"$gt": nominal}},
        }
        found = await self._runs.find(before, {"_id": 1}, hint=_BY_TRIGGER).limit(limit).to_list(None)
        return [run["_id"] for run in found]
