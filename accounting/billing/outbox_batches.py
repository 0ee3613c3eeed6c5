"""Batches of the outbox, for operators: list, replay and drop them."""

from collections.abc import Mapping, Sequence
from typing import Any

from pymongo import DESCENDING
from pymongo.asynchronous.database import AsyncDatabase

from accounting.billing.outbox import COLLECTION, DEAD, PENDING, STATES

UNDELIVERED = (PENDING, DEAD)
Batch = Mapping[str, Any]
_SUMMARY_FIELDS = ("state", "events", "failures", "created_at", "due_at", "delivered_at", "last_failure")


async def find_batches(
    database: AsyncDatabase[dict[str, Any]], *, state: str | None = None, limit: int
) -> Sequence[Batch]:
    """Lists batches without their bodies, newest first."""
    states = STATES if state is None else (state,)  # each state is sorted in the index
    found = database[COLLECTION].find({"state": {"$in": states}}, dict.fromkeys(_SUMMARY_FIELDS, 1))
    return await found.sort("created_at", DESCENDING).limit(limit).to_list(None)


async def find_batch(database: AsyncDatabase[dict[str, Any]], batch_id: str) -> Batch | None:
    return await database[COLLECTION].find_one({"_id": batch_id})


async def find_last_delivery(database: AsyncDatabase[dict[str, Any]]) -> Batch | None:
    """Returns the last delivery. None if it is older than delivered batches are kept."""
    delivered = {"delivered_at": {"$type": "date"}}
    return await database[COLLECTION].find_one(delivered, {"delivered_at": 1}, sort=[("delivered_at", DESCENDING)])


async def find_unknown_ids(
    database: AsyncDatabase[dict[str, Any]], batch_ids: Sequence[str], *, states: Sequence[str] = STATES
) -> Sequence[str]:
    """Returns the ids that do not exist, or are in none of these states."""
    query = {"_id": {"$in": [*batch_ids]}, "state": {"$in": [*states]}}
    known = {batch["_id"] async for batch in database[COLLECTION].find(query, {"_id": 1})}
    return [batch_id for batch_id in batch_ids if batch_id not in known]


async def replay_batches(database: AsyncDatabase[dict[str, Any]], batch_ids: Sequence[str] | None) -> int:
    """Posts batches again now, with their ids, bytes and a fresh count of failures.

    None: all dead ones.
    """
    pending = {"state": PENDING, "failures": 0, "due_at": "$$NOW"}
    changed = await database[COLLECTION].update_many(
        _selection_query(batch_ids), [{"$set": pending}, {"$unset": ["delivered_at", "claim"]}]
    )
    return changed.matched_count


async def drop_batches(database: AsyncDatabase[dict[str, Any]], batch_ids: Sequence[str] | None) -> int:
    """Drops undelivered batches; their rows stay in the ledger. None: all dead ones."""
    dropped = await database[COLLECTION].delete_many(
        {"$and": [_selection_query(batch_ids), {"state": {"$in": UNDELIVERED}}]}
    )
    return dropped.deleted_count


def batch_as_json(batch: Batch) -> dict[str, Any]:
    return {
        "batch_id": batch["_id"],
        "state": batch["state"],
        "events": batch["events"],
        "failures": batch["failures"],
        "created_at": batch["created_at"],
        "next_attempt_at": batch.get("due_at"),
        "delivered_at": batch.get("delivered_at"),
        "last_failure": batch.get("last_failure"),
    }


def _selection_query(batch_ids: Sequence[str] | None) -> dict[str, Any]:
    return {"state": DEAD} if batch_ids is None else {"_id": {"$in": [*batch_ids]}}
