"""Rows of the ledger: what the store keeps of one model call.

A row is written before its call. `rollup` marks what the totals lack: the row is open until its call has an answer or
an error; then it is due, until the totals include it and the mark is removed. The row of a killed worker is closed as
missing when its time is over. If its answer arrives later, from a worker that had only slept, it corrects the row.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from bson.timestamp import Timestamp
from pymongo import ASCENDING, IndexModel

from accounting.prices import PriceTable
from accounting.usage import BegunCall, ModelCall, RunOwner, Tokens

Row = dict[str, Any]

COLLECTION = "usage"

OPEN, DUE, CORRECTS = 0, 1, 2
NOT_ADDED = {"$in": [DUE, CORRECTS]}
NOT_OPEN = {"$ne": OPEN}
WORKER_LOST = "WorkerLost"
# Errors that are no failures of the model: a repeated call asks no failing model then.
NON_MODEL_ERRORS = (None, "Cancelled", WORKER_LOST)

CLOSE_DELAY_S = 60.0  # for the cleanup of a library after its deadline, and for the way of the row to the store
DEFAULT_CALL_TIMEOUT_S = 600.0

BY_ROLLUP = "by_rollup"
BY_TIME = "by_time"
INDEXES = (
    IndexModel([("run_id", ASCENDING)], name="by_run"),  # a run's totals when it ends
    IndexModel(
        [("app_id", ASCENDING), ("at", ASCENDING)], name="by_app_and_time"
    ),  # the calls of an app since some time
    IndexModel([("at", ASCENDING)], name=BY_TIME),  # hour by hour: retention, rebuild, exports
    IndexModel(
        [("rollup", ASCENDING), ("open_until", ASCENDING)],
        name=BY_ROLLUP,
        partialFilterExpression={"rollup": {"$exists": True}},
    ),
)


def row_id(owner: RunOwner, *, lease_token: int, number: int) -> str:
    """Builds the id.

    A lease token is never used twice, so no retry or hand-back collides with an earlier owner.
    """
    return f"{owner.run_id}:{lease_token}:{number}"


def open_row(owner: RunOwner, *, lease_token: int, call: BegunCall, holder: str) -> Row:
    open_for_s = (call.within_s or DEFAULT_CALL_TIMEOUT_S) + CLOSE_DELAY_S
    return {
        **_labels(owner, lease_token, call, holder),
        **_tokens(Tokens()),
        "status": "missing",
        "ok": False,
        "error": None,
        "duration_s": None,
        "cost_nano_usd": None,
        "price": None,
        "at": call.started_at,
        "rollup": OPEN,
        "open_until": call.started_at + timedelta(seconds=open_for_s),
        "begun": Timestamp(0, 0),  # the server replaces it by its own time
    }


def expired_open_rows() -> dict[str, Any]:
    """Selects open rows that are over.

    The clock is that of the store: the clock of their worker may be wrong.
    """
    open_for = {"$subtract": ["$open_until", "$at"]}
    return {"rollup": OPEN, "$expr": {"$lt": [{"$add": [{"$toDate": "$begun"}, open_for]}, "$$NOW"]}}


def close_as_lost() -> dict[str, Any]:
    return {"$set": {"rollup": DUE, "error": WORKER_LOST}, "$unset": {"open_until": "", "begun": ""}}


def closed_row(owner: RunOwner, *, lease_token: int, call: ModelCall, holder: str, prices: PriceTable) -> Row:
    """Builds the completed row. A missing call has no price, as its usage is unknown."""
    priced = prices.price_call(call.tokens, provider=call.provider, model=call.model, at=call.started_at)
    is_known = call.status != "missing"
    return {
        **_labels(owner, lease_token, call, holder),
        **_tokens(call.tokens),
        "status": call.status,
        "ok": call.ok,
        "error": call.error,
        "duration_s": call.duration_s,
        "cost_nano_usd": priced.nano_usd if is_known else None,
        "price": priced.table if is_known else None,
        "at": call.started_at,
        "rollup": DUE,
    }


def build_correction(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Builds the update of a row that was closed as missing.

    The totals may include it already or not.
    """
    known = {name: {"$literal": value} for name, value in row.items() if name not in ("_id", "rollup")}
    is_added = {"$eq": [{"$type": "$rollup"}, "missing"]}
    return [{"$set": {**known, "rollup": {"$cond": [is_added, CORRECTS, DUE]}}}]


def _labels(owner: RunOwner, lease_token: int, call: BegunCall | ModelCall, holder: str) -> Row:
    return {
        "_id": row_id(owner, lease_token=lease_token, number=call.number),
        "run_id": owner.run_id,
        "app_id": owner.app_id,
        "user_id": owner.user_id,
        "chat_id": owner.chat_id,
        "workflow": owner.workflow,
        "trigger_type": owner.trigger_type,
        "agent": call.agent,
        "provider": call.provider,
        "model": call.model,
        "holder": holder,
    }


def _tokens(tokens: Tokens) -> Row:
    return {
        "input_tokens": tokens.input,
        "cached_input_tokens": tokens.cached_input,
        "cache_write_tokens": tokens.cache_write,
        "output_tokens": tokens.output,
        "reasoning_tokens": tokens.reasoning,
    }
