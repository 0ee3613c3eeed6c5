"""The roll-up: adds the rows of the ledger to the totals, each row once.

1. Rows that a dead worker left open are closed as missing when their time is over.
2. A batch of due rows is added to the totals of their hours and of all time. The same transaction removes their marks
   and puts them into the outbox, so a crash at any point leaves each row added and billed once.
3. Each transaction begins by incrementing `seq`. So one process at a time adds, and any other one waits for its next
   pass. Readers that follow the totals ask for a higher `seq` than they have seen.

Totals are made from rows alone. Readers of totals add the rows that are still marked, so a late roll-up changes no sum.
"""

import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Any

from pymongo import ReturnDocument, UpdateOne
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from accounting.billing.outbox import Outbox
from accounting.ledger.ledger_rows import BY_ROLLUP, COLLECTION, NOT_ADDED, Row, close_as_lost, expired_open_rows
from accounting.totals.row_sums import (
    HOURS,
    STATE,
    STATE_ID,
    TOTALS,
    LabelValues,
    Sums,
    add_sums,
    additions,
    hour_of,
    key_of,
    label_fields,
    labels_of,
)
from accounting.totals.totals_rebuild import ensure_indexes, rebuild_in_steps

log = logging.getLogger(__name__)

ADDED, CLOSED = "added", "closed"
BATCH = 1_000
# A pass stays short, so that neither shutdown nor the other steps of the reconciler wait long.
MAX_BATCHES = 10
REBUILD_TIMEOUT_S = 2.0


class RollUp:
    def __init__(
        self,
        database: AsyncDatabase[dict[str, Any]],
        *,
        outbox: Outbox | None = None,
        batch: int = BATCH,
        rebuild_timeout_s: float = REBUILD_TIMEOUT_S,
    ) -> None:
        self._database = database
        self._rows = database[COLLECTION]
        self._outbox = outbox
        self._batch = batch
        self._rebuild_timeout_s = rebuild_timeout_s
        self._is_prepared = False
        self._rebuild: AsyncGenerator[int] | None = None

    async def run_pass(self, counts: Counter[str] | None = None) -> None:
        counts = Counter() if counts is None else counts
        if not await self._prepare():
            return
        closed = await self._close_expired_rows()
        if closed:
            counts[CLOSED] += closed
        for _ in range(MAX_BATCHES):
            if await self._rows.find_one({"rollup": NOT_ADDED}, {"_id": 1}, hint=BY_ROLLUP) is None:
                return
            added = await self.add_batch()
            if added == 0:
                return
            counts[ADDED] += added

    async def _prepare(self) -> bool:
        """Builds the totals first where they were lost: rows without marks are in none then.

        A large ledger takes several passes.
        """
        if self._is_prepared:
            return True
        if self._rebuild is None:
            await ensure_indexes(self._database)
            if await self._database[STATE].find_one({"_id": STATE_ID, "ready": True}) is None:
                self._rebuild = rebuild_in_steps(self._database)
        if self._rebuild is not None and not await self._advance_rebuild(self._rebuild):
            return False
        self._is_prepared, self._rebuild = True, None
        return True

    async def _advance_rebuild(self, rebuild: AsyncGenerator[int]) -> bool:
        until = time.monotonic() + self._rebuild_timeout_s
        try:
            async for _ in rebuild:
                if time.monotonic() > until:
                    return False
        except BaseException:
            self._rebuild = None  # the next pass begins a new one
            raise
        return True

    async def _close_expired_rows(self) -> int:
        closed = (await self._rows.update_many(expired_open_rows(), close_as_lost(), hint=BY_ROLLUP)).modified_count
        if closed:
            log.warning("usage_rows_closed", extra={"rows": closed, "reason": "no answer was recorded in time"})
        return closed

    async def add_batch(self) -> int:
        """Adds one batch in one transaction, without retries.

        Returns 0 if nothing is due or another process is adding.
        """
        try:
            async with (
                self._database.client.start_session() as session,
                await session.start_transaction(ReadConcern("snapshot"), WriteConcern("majority", wtimeout=10_000)),
            ):
                return await self._add_in_transaction(session)
        except OperationFailure as error:
            if not error.has_error_label("TransientTransactionError"):
                raise
            log.debug("roll_up_postponed", extra={"code": error.code})
            return 0

    async def _add_in_transaction(self, session: AsyncClientSession) -> int:
        state = await self._database[STATE].find_one_and_update(
            {"_id": STATE_ID}, {"$inc": {"seq": 1}}, return_document=ReturnDocument.AFTER, session=session
        )
        found = self._rows.find({"rollup": NOT_ADDED}, session=session, hint=BY_ROLLUP).limit(self._batch)
        rows = await found.to_list(None)
        if state is None:
            self._is_prepared = False  # the totals were deleted meanwhile
        if state is None or not rows:
            await session.abort_transaction()
            return 0
        hours, totals = build_updates(rows, seq=state["seq"])
        await self._database[HOURS].bulk_write(hours, ordered=False, session=session)
        await self._database[TOTALS].bulk_write(totals, ordered=False, session=session)
        if self._outbox is not None:
            await self._outbox.add(rows, session)
        added = {"_id": {"$in": [row["_id"] for row in rows]}}
        await self._rows.update_many(added, {"$unset": {"rollup": ""}}, session=session)
        return len(rows)


def build_updates(rows: Sequence[Row], *, seq: int) -> tuple[list[UpdateOne], list[UpdateOne]]:
    """Builds the updates of the totals by hour, and of those of all time."""
    by_hour: dict[tuple[datetime, LabelValues], Sums] = {}
    by_labels: dict[LabelValues, Sums] = {}
    for row, sums in additions(rows):
        labels = labels_of(row)
        add_sums(by_hour, (hour_of(row["at"]), labels), sums)
        add_sums(by_labels, labels, sums)
    hours = [
        UpdateOne(
            {"_id": key_of(labels, hour)}, {"$setOnInsert": label_fields(labels, hour), "$inc": sums}, upsert=True
        )
        for (hour, labels), sums in by_hour.items()
    ]
    totals = [
        UpdateOne(
            {"_id": key_of(labels)},
            {"$setOnInsert": label_fields(labels), "$inc": sums, "$set": {"seq": seq}},
            upsert=True,
        )
        for labels, sums in by_labels.items()
    ]
    return hours, totals
