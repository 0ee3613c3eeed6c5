"""Retention of the ledger: deletes old rows hour by hour. Their totals stay.

First it records that rows of the hour may be gone (`kept_since`), so that no rebuild sums up what is left of them. Only
then it deletes them, a bounded number in each pass. Rows that the totals lack keep their hour.
"""

import logging
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from pymongo import ASCENDING
from pymongo.asynchronous.database import AsyncDatabase

from accounting.ledger.ledger_rows import BY_TIME, COLLECTION
from accounting.totals.row_sums import STATE, STATE_ID, hour_of

log = logging.getLogger(__name__)

PRUNED = "pruned"
BATCH = 2_000
MAX_BATCHES = 3
HOUR = timedelta(hours=1)


class LedgerRetention:
    def __init__(self, database: AsyncDatabase[dict[str, Any]], keep: timedelta) -> None:
        self._rows = database[COLLECTION]
        self._state = database[STATE]
        self._keep = keep
        self._keep_ms = int(keep.total_seconds() * 1000)

    async def run_pass(self, counts: Counter[str]) -> None:
        for _ in range(MAX_BATCHES):
            pruned = await self._prune_batch()
            if pruned:
                counts[PRUNED] += pruned
            if pruned < BATCH:
                return

    async def _prune_batch(self) -> int:
        hour = await self._find_oldest_expired_hour()
        if hour is None or await self._has_unadded_rows(hour) or not await self._record_kept_since(hour + HOUR):
            return 0
        within = {"at": {"$lt": hour + HOUR}}
        found = self._rows.find(within, {"_id": 1}, hint=BY_TIME).sort("at", ASCENDING).limit(BATCH)
        row_ids = [row["_id"] async for row in found]
        # A sleeping worker may have corrected a row just now: the roll-up adds it first.
        gone = await self._rows.delete_many({"_id": {"$in": row_ids}, "rollup": {"$exists": False}})
        if gone.deleted_count:
            log.info("usage_rows_pruned", extra={"rows": gone.deleted_count, "hour": hour.isoformat()})
        return gone.deleted_count

    async def _find_oldest_expired_hour(self) -> datetime | None:
        """Returns the hour of the oldest row, if that whole hour is beyond the limit.

        The clock is that of the database.
        """
        over = {"$expr": {"$lt": ["$at", {"$subtract": ["$$NOW", self._keep_ms + 3_600_000]}]}}
        found = self._rows.find({}, {"at": 1}, hint=BY_TIME).sort("at", ASCENDING).limit(1)
        oldest = await found.to_list(1)
        if not oldest or await self._rows.find_one({"_id": oldest[0]["_id"], **over}, {"_id": 1}) is None:
            return None
        return hour_of(oldest[0]["at"])

    async def _has_unadded_rows(self, hour: datetime) -> bool:
        within = {"at": {"$lt": hour + HOUR}, "rollup": {"$exists": True}}
        return await self._rows.find_one(within, {"_id": 1}, hint="by_rollup") is not None

    async def _record_kept_since(self, kept_since: datetime) -> bool:
        """Records the limit.

        Returns False while the totals are being built for the first time.
        """
        result = await self._state.update_one({"_id": STATE_ID, "ready": True}, {"$max": {"kept_since": kept_since}})
        return result.matched_count > 0
