"""The ledger: one document per model call, written before the chat uses the answer.

A row's key is run:lease_token:call. A lease token is never used twice, so neither a retry nor a
hand-back can collide with what an earlier owner recorded, and writing a row again changes nothing.
"""

from collections.abc import Mapping
from typing import Any

from pymongo import ASCENDING, IndexModel
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import DuplicateKeyError

from accounting.prices import PriceTable
from accounting.usage import ModelCall, RunOwner

COLLECTION = "usage"

INDEXES = (
    IndexModel([("run_id", ASCENDING)], name="by_run"),  # a run's totals when it ends
    IndexModel([("app_id", ASCENDING), ("at", ASCENDING)], name="by_app_and_time"),  # `unattended usage --since`
)


class Ledger:
    def __init__(self, database: AsyncDatabase[dict[str, Any]], prices: PriceTable) -> None:
        self._rows: AsyncCollection[dict[str, Any]] = database[COLLECTION]
        self._prices = prices

    async def ensure_indexes(self) -> None:
        await self._rows.create_indexes(list(INDEXES))

    async def record(self, owner: RunOwner, *, lease_token: int, call: ModelCall) -> None:
        """Never conditional on the lease: what a model served is owed, also by an owner that lost its run."""
        row = usage_row(owner, lease_token=lease_token, call=call, prices=self._prices)
        try:
            await self._rows.insert_one(row)
        except DuplicateKeyError:
            return  # the first write arrived though its answer did not

    async def failed_calls(self, run_id: str) -> Mapping[str, int]:
        """How many calls of each agent the model itself refused or failed."""
        pipeline: list[dict[str, Any]] = [
            {"$match": {"run_id": run_id, "ok": False, "error": {"$ne": "Cancelled"}}},
            {"$group": {"_id": "$agent", "count": {"$sum": 1}}},
        ]
        return {row["_id"]: row["count"] async for row in await self._rows.aggregate(pipeline)}


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
