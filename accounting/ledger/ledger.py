"""The ledger: one row per model call, written before the call is made.

1. `begin` writes the open row. From then on the call is known, even if this process is killed the next moment: a row
   that is never completed is closed as missing when its time is over, so it never looks like a free call.
2. `record` completes the row before the answer is used. It is never conditional on the lease: what a model served is
   owed, also by an owner that lost its run. It retries until the row is stored, through an election and longer.
   Completing a row twice changes nothing.

Rows that many runs of the process write at the same moment share one command. At most `MAX_WAITING_WRITES` wait for it;
further calls wait before they are made. A stopping process drains the waiting writes (`drain`).
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pymongo import DeleteOne, InsertOne, ReplaceOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import DuplicateKeyError, PyMongoError

from accounting.infra.aio import run_shielded
from accounting.infra.bulk_writer import BulkWriter, collect_bulk_errors
from accounting.infra.store_errors import is_unavailable
from accounting.ledger.ledger_rows import (
    COLLECTION,
    INDEXES,
    NON_MODEL_ERRORS,
    OPEN,
    WORKER_LOST,
    Row,
    build_correction,
    closed_row,
    open_row,
)
from accounting.prices import PriceTable
from accounting.usage import BegunCall, ModelCall, RunOwner

log = logging.getLogger(__name__)

Write = InsertOne[Row] | ReplaceOne[Row] | DeleteOne

FIRST_PAUSE_S = 0.25
MAX_PAUSE_S = 5.0
BEGIN_TIMEOUT_S = 10.0
MAX_WAITING_WRITES = 2_000


@dataclass(frozen=True, slots=True)
class EarlierCalls:
    """The calls of a run before its present owner.

    `failed_by_agent` counts failures of the model only.
    """

    count: int = 0
    tokens: int = 0
    cost_nano_usd: int = 0
    failed_by_agent: Mapping[str, int] = field(default_factory=dict)


class Ledger:
    def __init__(
        self,
        database: AsyncDatabase[dict[str, Any]],
        prices: PriceTable,
        *,
        holder: Callable[[], str] = str,
        fails_closed: bool = True,
        begin_timeout_s: float = BEGIN_TIMEOUT_S,
        max_waiting_writes: int = MAX_WAITING_WRITES,
    ) -> None:
        """`holder` returns the name of this process for budgets.

        `fails_closed`: no call is made while its row cannot be written. Otherwise it is made, and its row is written
        when the store is back.
        """
        self._rows: AsyncCollection[Row] = database[COLLECTION]
        self._prices = prices
        self._holder = holder
        self._fails_closed = fails_closed
        self._begin_timeout_s = begin_timeout_s
        self._writer = BulkWriter(self._write_all)
        self._slots = asyncio.Semaphore(max_waiting_writes)
        self._pending_writes = 0
        self._all_written = asyncio.Event()
        self._delete_tasks: set[asyncio.Task[None]] = set()

    async def ensure_indexes(self) -> None:
        await self._rows.create_indexes(list(INDEXES))

    async def begin(self, owner: RunOwner, *, lease_token: int, call: BegunCall) -> None:
        """Writes the open row.

        Raises if the call must not be made: then it has no row either.
        """
        row = open_row(owner, lease_token=lease_token, call=call, holder=self._holder())
        try:
            await self._write_with_retries(InsertOne(row), row["_id"], timeout_s=self._begin_timeout_s)
        except DuplicateKeyError:
            return  # an earlier try was written though its reply was lost
        except PyMongoError as error:
            self._start_delete(row)
            if self._fails_closed or not is_unavailable(error):
                raise
            log.warning("call_made_without_row", extra={"row": row["_id"], "error": type(error).__name__})
        except asyncio.CancelledError:
            await run_shielded(self._delete_open_row(row))  # before the usage of its run is summed up
            raise

    async def record(self, owner: RunOwner, *, lease_token: int, call: ModelCall, holder: str | None = None) -> None:
        """Completes the row of a call.

        `holder` is the name under which the call was reserved, if this process has another one by now.
        """
        signer = holder or self._holder()
        row = closed_row(owner, lease_token=lease_token, call=call, holder=signer, prices=self._prices)
        complete = ReplaceOne({"_id": row["_id"], "rollup": OPEN}, row, upsert=True)
        try:
            await self._write_with_retries(complete, row["_id"])
        except DuplicateKeyError:
            await self._correct_row(row)

    async def drain(self, *, timeout_s: float) -> bool:
        """Waits for all writes of this process and returns whether they have succeeded."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._pending_writes:
                    self._all_written.clear()
                    await self._all_written.wait()
        except TimeoutError:
            log.error("usage_rows_left", extra={"rows": self._pending_writes})
        return not self._pending_writes

    async def _write_with_retries(self, write: Write, row_id: str, *, timeout_s: float = float("inf")) -> None:
        loop = asyncio.get_running_loop()
        pause_s, give_up_at = FIRST_PAUSE_S, loop.time() + timeout_s
        with self._count_write():
            async with self._slots:
                while True:
                    try:
                        await self._writer.submit(write)
                    except PyMongoError as error:
                        if not is_unavailable(error) or loop.time() + pause_s > give_up_at:
                            raise
                        log.warning("usage_row_waits", extra={"row": row_id, "error": type(error).__name__})
                    else:
                        return
                    await asyncio.sleep(pause_s)
                    pause_s = min(pause_s * 2, MAX_PAUSE_S)

    @contextmanager
    def _count_write(self) -> Iterator[None]:
        self._pending_writes += 1
        try:
            yield
        finally:
            self._pending_writes -= 1
            if not self._pending_writes:
                self._all_written.set()

    def _start_delete(self, row: Row) -> None:
        task = asyncio.ensure_future(self._delete_open_row(row))
        self._delete_tasks.add(task)
        task.add_done_callback(self._delete_tasks.discard)

    async def _delete_open_row(self, row: Row) -> None:
        """Deletes an open row.

        The bulk writer keeps the order, should the row still be on its way. A row that cannot be deleted is closed as
        missing later.
        """
        with self._count_write():
            try:
                await self._writer.submit(DeleteOne({"_id": row["_id"], "rollup": OPEN}))
            except PyMongoError as error:
                log.warning("usage_row_left_open", extra={"row": row["_id"], "error": type(error).__name__})

    async def _correct_row(self, row: Row) -> None:
        """Corrects a row that is closed already.

        An earlier write has closed it and its reply was lost, or this worker was taken for dead.
        """
        lost = {"_id": row["_id"], "error": WORKER_LOST}
        while True:
            try:
                written = await self._rows.update_one(lost, build_correction(row))
            except PyMongoError as error:
                if not is_unavailable(error):
                    raise
                await asyncio.sleep(FIRST_PAUSE_S)
            else:
                if written.matched_count:
                    log.warning("usage_row_corrected", extra={"row": row["_id"]})
                return

    async def _write_all(self, writes: Sequence[Write]) -> Sequence[Exception | None]:
        return await collect_bulk_errors(self._rows.bulk_write([*writes], ordered=False), len(writes))

    async def read_earlier_calls(self, run_id: str) -> EarlierCalls:
        failed = {"$and": [{"$not": "$ok"}, {"$not": {"$in": ["$error", [*NON_MODEL_ERRORS]]}}]}
        sums = {
            "calls": {"$sum": 1},
            "tokens": {"$sum": {"$add": ["$input_tokens", "$output_tokens"]}},
            "cost": {"$sum": "$cost_nano_usd"},
            "failed": {"$sum": {"$cond": [failed, 1, 0]}},
        }
        pipeline: list[dict[str, Any]] = [{"$match": {"run_id": run_id}}, {"$group": {"_id": "$agent", **sums}}]
        rows = [row async for row in await self._rows.aggregate(pipeline)]
        return EarlierCalls(
            count=sum(row["calls"] for row in rows),
            tokens=sum(row["tokens"] for row in rows),
            cost_nano_usd=sum(row["cost"] for row in rows),
            failed_by_agent={row["_id"]: row["failed"] for row in rows},
        )
