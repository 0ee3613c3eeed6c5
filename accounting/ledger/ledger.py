"""The ledger: one document per model call, written before the chat uses the answer.

A row's key is run:lease_token:call. A lease token is never used twice, so neither a retry nor a
hand-back can collide with what an earlier owner recorded, and writing a row again changes nothing. So a row is
written until it is stored: through an election, and also when the run has long been lost to another owner.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pymongo import ASCENDING, IndexModel
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import DuplicateKeyError, PyMongoError

from accounting.grouped import Grouped, each_written
from accounting.prices import PriceTable
from accounting.store_errors import store_is_away
from accounting.usage import ModelCall, RunOwner

log = logging.getLogger(__name__)

Row = dict[str, Any]

COLLECTION = "usage"
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 5.0

INDEXES = (
    IndexModel([("run_id", ASCENDING)], name="by_run"),  # a run's totals when it ends
    IndexModel([("app_id", ASCENDING), ("at", ASCENDING)], name="by_app_and_time"),  # `unattended usage --since`
)


@dataclass(frozen=True, slots=True)
class EarlierCalls:
    """What a run has called before its present owner; failures by agent leave out cancelled calls."""

    count: int = 0
    tokens: int = 0
    cost_nano_usd: int = 0
    failed_by_agent: Mapping[str, int] = field(default_factory=dict)


class Ledger:
    def __init__(self, database: AsyncDatabase[dict[str, Any]], prices: PriceTable) -> None:
        self._rows: AsyncCollection[dict[str, Any]] = database[COLLECTION]
        self._prices = prices
        self._inserts = Grouped(self._insert)

    async def ensure_indexes(self) -> None:
        await self._rows.create_indexes(list(INDEXES))

    async def record(self, owner: RunOwner, *, lease_token: int, call: ModelCall) -> None:
        """Never conditional on the lease: what a model served is owed, also by an owner that lost its run."""
        row = usage_row(owner, lease_token=lease_token, call=call, prices=self._prices)
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                await self._inserts.do(row)
            except DuplicateKeyError:
                return  # an earlier write arrived though its answer did not
            except PyMongoError as error:
                if not store_is_away(error):
                    raise
                log.warning("usage_row_waits", extra={"row": row["_id"], "error": type(error).__name__})
            else:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def _insert(self, rows: Sequence[Row]) -> Sequence[Exception | None]:
        return await each_written(self._rows.insert_many(rows, ordered=False), len(rows))

    async def earlier_calls(self, run_id: str) -> EarlierCalls:
        failed = {"$and": [{"$not": "$ok"}, {"$ne": ["$error", "Cancelled"]}]}
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


def usage_row(owner: RunOwner, *, lease_token: int, call: ModelCall, prices: PriceTable) -> dict[str, Any]:
    tokens = call.tokens
    cost = prices.cost(tokens, provider=call.provider, model=call.model, at=call.started_at)
    return {
        "_id": f"{owner.run_id}:{lease_token}:{call.number}",
        "run_id": owner.run_id,
        "app_id": owner.app_id,
        "user_id": owner.user_id,
        "chat_id": owner.chat_id,
        "workflow": owner.workflow,
        "trigger_type": owner.trigger_type,
        "agent": call.agent,
        "provider": call.provider,
        "model": call.model,
        "input_tokens": tokens.input,
        "cached_input_tokens": tokens.cached_input,
        "cache_write_tokens": tokens.cache_write,
        "output_tokens": tokens.output,
        "reasoning_tokens": tokens.reasoning,
        "status": call.status,
        "ok": call.ok,
        "error": call.error,
        "duration_s": call.duration_s,
        "cost_nano_usd": None if call.status == "missing" else cost,
        "at": call.started_at,
    }
