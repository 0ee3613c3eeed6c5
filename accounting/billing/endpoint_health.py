"""Health of the billing endpoint: one document while it fails, for all senders.

So all senders pause together. The document holds a hash instead of the URL, which may contain a token, and the host for
people. A new URL starts without failures.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from pymongo import ReturnDocument
from pymongo.asynchronous.database import AsyncDatabase

from accounting.billing.delivery_backoff import DeliveryBackoff
from accounting.billing.http_post import GONE, THROTTLING, PostResult

COLLECTION = "outbox_endpoints"


def endpoint_id(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()[:16]


def redact_url(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}/…"


class EndpointHealth:
    def __init__(self, database: AsyncDatabase[dict[str, Any]], url: str, backoff: DeliveryBackoff) -> None:
        self.url = url
        self._failures = database[COLLECTION]
        self._id = endpoint_id(url)
        self._backoff = backoff

    async def is_paused(self) -> bool:
        paused = {"$expr": {"$gt": ["$paused_until", "$$NOW"]}}
        failure = await self._failures.find_one({"_id": self._id, "$or": [{"gone_at": {"$type": "date"}}, paused]})
        return failure is not None

    async def record_success(self) -> None:
        """Deletes the failures. That the endpoint is gone (410) is only reset by a person."""
        await self._failures.delete_one({"_id": self._id, "gone_at": None})

    async def record_failure(self, result: PostResult, *, batch_id: str) -> None:
        last = {"at": "$$NOW", "what": {"$literal": result.description}, "batch_id": batch_id}
        failures = {"$add": [{"$ifNull": ["$failures", 0]}, 1]}
        gone = {"gone_at": {"$ifNull": ["$gone_at", "$$NOW"]}} if result.status == GONE else {}
        health = await self._failures.find_one_and_update(
            {"_id": self._id},
            [{"$set": {"url": {"$literal": redact_url(self.url)}, "failures": failures, "last_failure": last, **gone}}],
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
        retry_after_s = result.retry_after_s if result.status in THROTTLING else None
        pause_ms = round(
            self._backoff.endpoint_pause_s(int((health or {}).get("failures", 1)), retry_after_s=retry_after_s) * 1000
        )
        paused_until = {"$max": ["$paused_until", {"$add": ["$$NOW", pause_ms]}]}
        await self._failures.update_one({"_id": self._id}, [{"$set": {"paused_until": paused_until}}])


async def find_failures(database: AsyncDatabase[dict[str, Any]], url: str | None) -> Sequence[Mapping[str, Any]]:
    """Lists the failures of this URL, or of all URLs if it is None."""
    found = database[COLLECTION].find({} if url is None else {"_id": endpoint_id(url)}).sort("last_failure.at", -1)
    return await found.to_list(None)


async def forget_failures(database: AsyncDatabase[dict[str, Any]], url: str | None) -> int:
    """Forgets failures, so that an endpoint is tried again even after 410.

    Returns how many there were.
    """
    forgotten = await database[COLLECTION].delete_many({} if url is None else {"_id": endpoint_id(url)})
    return forgotten.deleted_count
