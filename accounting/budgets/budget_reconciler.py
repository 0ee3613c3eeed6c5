"""The budget reconciler: repairs windows from the ledger, step by step.

1. An entry that has been over for long no longer belongs to its process, which has died or slept. The rows that the
   process signed since it entered are summed up, including its last calls that it could not report. The sum is made
   again for a while, as a process that only slept may still write rows, and then added to what stays.
2. What was spent in a window before its budget was set is summed up once, even if no process reserves in it, so that
   readers need not do it. While the window is young the sum is made again, as calls that began before may still run.
3. Windows that ended long ago are deleted; their rejections are stored elsewhere. Estimates of calls that are no longer
   made are deleted too.

It runs in the reconciler of the scheduler, in any number of processes.
"""

import logging
import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo import ASCENDING
from pymongo.asynchronous.database import AsyncDatabase

from accounting.budgets.budget_store import BudgetStore
from accounting.budgets.effective_budgets import effective_budget
from accounting.budgets.estimates import EstimateStore
from accounting.budgets.window_store import COLLECTION, UPDATE_IS_HELD, Document, WindowStore, sum_recorded_before
from accounting.ledger.ledger_rows import COLLECTION as ROWS

log = logging.getLogger(__name__)

LOST_DELAY_S = 60  # after its reservation has expired
FOLD_DELAY_S = 600
REPEAT_INTERVAL_S = 15
MAX_WINDOWS = 100
WINDOW_RETENTION = timedelta(days=7)
MAX_DELETED = 500
ESTIMATES_DELETE_INTERVAL_S = 3600


def _seconds_ago(seconds: float) -> Document:
    return {"$subtract": ["$$NOW", int(seconds * 1000)]}


class BudgetReconciler:
    def __init__(
        self,
        database: AsyncDatabase[Document],
        *,
        repeat_interval_s: float = REPEAT_INTERVAL_S,
        max_windows: int = MAX_WINDOWS,
        estimates: EstimateStore | None = None,
    ) -> None:
        self._database = database
        self._repeat_interval_s = repeat_interval_s
        self._max_windows = max_windows
        self._windows = database[COLLECTION]
        self._rows = database[ROWS]
        self._budgets = BudgetStore(database)
        self._store = WindowStore(database)
        self._is_prepared = False
        self._opened_ids: set[str] = set()
        self._all_open_at = float("-inf")
        self._estimates = EstimateStore(database) if estimates is None else estimates
        self._estimates_deleted_at = float("-inf")

    async def run_pass(self, _: Counter[str]) -> None:
        """Runs all steps. They log what they do; `_` counts runs, which other steps do."""
        if not self._is_prepared:
            await self._store.ensure_indexes()
            await self._estimates.ensure_indexes()
            self._is_prepared = True
        await self._settle_lost_holders()
        await self._open_windows()
        await self._update_bases()
        await self._delete_old()
        await self._delete_old_estimates()

    async def _settle_lost_holders(self) -> None:
        is_lost = {"$lt": ["$$each.v.until", _seconds_ago(LOST_DELAY_S)]}
        is_due = {"$lt": [{"$ifNull": ["$$each.v.summed_at", "$$each.v.until"]}, _seconds_ago(self._repeat_interval_s)]}
        entries = {"$objectToArray": "$holders"}
        lost = {"$filter": {"input": entries, "as": "each", "cond": {"$and": [is_lost, is_due]}}}
        labels = dict.fromkeys(("app_id", "workflow", "unit", "start", "end"), 1)
        pipeline: list[Mapping[str, Any]] = [
            {"$match": {"is_held": True}},
            {"$project": {**labels, "lost": lost}},
            {"$match": {"lost": {"$ne": []}}},
            {"$sort": {"lost.v.summed_at": ASCENDING}},  # first those that no pass has reached
            {"$limit": self._max_windows},
        ]
        async for window in await self._windows.aggregate(pipeline, hint="by_holders"):
            for entry in window["lost"]:
                await self._settle_holder(window, entry["k"], entry["v"])

    async def _settle_holder(self, window: Document, holder: str, entry: Document) -> None:
        """Replaces the numbers of a lost process by the sum of its rows.

        Another reconciler finds the same sum, and keeps it once.
        """
        # If it was there for longer than rows are kept, its own number is higher than the sum of what is left.
        spent = max(await self._sum_signed_rows(window, holder, entry), entry["spent"])
        path = f"holders.{holder}"
        seen = {"_id": window["_id"], f"{path}.until": entry["until"]}
        summed = {f"{path}.spent": spent, f"{path}.reserved": 0, f"{path}.summed_at": "$$NOW"}
        await self._windows.update_one(seen, [{"$set": summed}])
        if "summed_at" in entry and spent == entry["spent"]:  # otherwise rows may still arrive, as after a long outage
            is_over = {"$lt": [f"${path}.until", _seconds_ago(FOLD_DELAY_S)]}
            fold: list[Mapping[str, Any]] = [
                {"$set": {"folded": {"$add": ["$folded", spent]}}},
                {"$unset": path},
                UPDATE_IS_HELD,
            ]
            await self._windows.update_one({**seen, "$expr": is_over}, fold)
        if spent != entry["spent"]:
            facts = {"window": window["_id"], "holder": holder, "told": entry["spent"], "spent": spent}
            log.warning("budget_corrected", extra=facts)

    async def _sum_signed_rows(self, window: Document, holder: str, entry: Document) -> int:
        scope = {name: window[name] for name in ("app_id", "workflow") if window[name] is not None}
        since = max(entry["since"], window["start"])
        within = {"$gte": since} if window["end"] is None else {"$gte": since, "$lt": window["end"]}
        amount = "$cost_nano_usd" if window["unit"] == "usd" else {"$add": ["$input_tokens", "$output_tokens"]}
        found = await self._rows.aggregate(
            [
                {"$match": {**scope, "at": within, "holder": holder}},
                {"$group": {"_id": None, "spent": {"$sum": amount}}},
            ]
        )
        return sum([int(row["spent"]) async for row in found])

    async def _open_windows(self) -> None:
        if time.monotonic() - self._all_open_at < self._repeat_interval_s:
            return
        now, budgets = datetime.now(UTC), await self._budgets.list()
        for_one_app = [
            stored for stored in budgets if not stored.budget.is_for_each_app and stored.budget.window != "run"
        ]
        windows = [effective_budget(stored, stored.budget.app_id, set()).window_at(now) for stored in for_one_app]
        young = {window.id: window for window in windows if window.has_earlier_spending}
        self._opened_ids &= young.keys()
        unopened = [window for id_, window in young.items() if id_ not in self._opened_ids]
        for window in unopened[: self._max_windows]:
            await self._store.open(window)
            self._opened_ids.add(window.id)
        if len(unopened) <= self._max_windows:
            self._all_open_at = time.monotonic()

    async def _update_bases(self) -> None:
        is_due = {"$lt": [{"$ifNull": ["$based_at", "$since"]}, _seconds_ago(self._repeat_interval_s)]}
        found = self._windows.find({"is_young": True, "$expr": is_due}, hint="by_youth")
        for window in await found.sort("based_at", ASCENDING).limit(self._max_windows).to_list(None):
            is_young = {"$gt": ["$since", _seconds_ago(FOLD_DELAY_S)]}
            base = {
                "base": await sum_recorded_before(self._database, window),
                "based_at": "$$NOW",
                "is_young": {"$cond": [is_young, True, "$$REMOVE"]},
            }
            await self._windows.update_one({"_id": window["_id"]}, [{"$set": base}])

    async def _delete_old(self) -> None:
        ended = {"end": {"$type": "date"}, "$expr": {"$lt": ["$end", _seconds_ago(WINDOW_RETENTION.total_seconds())]}}
        found = self._windows.find(ended, {"_id": 1}, hint="by_end").sort("end", ASCENDING).limit(MAX_DELETED)
        if old := [window["_id"] async for window in found]:
            await self._windows.delete_many({"_id": {"$in": old}})

    async def _delete_old_estimates(self) -> None:
        if time.monotonic() - self._estimates_deleted_at >= ESTIMATES_DELETE_INTERVAL_S:
            await self._estimates.delete_old()
            self._estimates_deleted_at = time.monotonic()
