"""The endpoint's trouble: kept only while there is some, and for all senders, so that they spare it together.

One document per URL, without the URL, which may hold a token: a hash, and the host for people. With another URL the
senders begin afresh.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from pymongo import ReturnDocument
from pymongo.asynchronous.database import AsyncDatabase

from accounting.billing.pace import Pace
from accounting.billing.posted import GONE, THROTTLING, Posted

COLLECTION = "outbox_endpoints"


def endpoint_id(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()[:16]


def shown(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}/…"


class Endpoint:
    def __init__(self, database: AsyncDatabase[dict[str, Any]], url: str, pace: Pace) -> None:
        self.url = url
        self._troubles = database[COLLECTION]
        self._id = endpoint_id(url)
        self._pace = pace

    async def is_spared(self) -> bool:
        paused = {"$expr": {"$gt": ["$paused_until", "$$NOW"]}}
        trouble = await self._troubles.find_one({"_id": self._id, "$or": [{"gone_at": {"$type": "date"}}, paused]})
        return trouble is not None

    async def took(self) -> None:
        """It takes batches again; that it once wanted none is for people to take back."""
        await self._troubles.delete_one({"_id": self._id, "gone_at": None})

    async def refused(self, posted: Posted, *, batch_id: str) -> None:
        last = {"at": "$$NOW", "what": {"$literal": posted.what}, "batch_id": batch_id}
        failures = {"$add": [{"$ifNull": ["$failures", 0]}, 1]}
        gone = {"gone_at": {"$ifNull": ["$gone_at", "$$NOW"]}} if posted.status == GONE else {}
        trouble = await self._troubles.find_one_and_update(
            {"_id": self._id},
            [{"$set": {"url": {"$literal": shown(self.url)}, "failures": failures, "last_failure": last, **gone}}],
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
        asked_s = posted.retry_after_s if posted.status in THROTTLING else None
        pause_ms = round(self._pace.spared_s(int((trouble or {}).get("failures", 1)), retry_after_s=asked_s) * 1000)
        longer = {"$max": ["$paused_until", {"$add": ["$$NOW", pause_ms]}]}
        await self._troubles.update_one({"_id": self._id}, [{"$set": {"paused_until": longer}}])


async def troubles(database: AsyncDatabase[dict[str, Any]], url: str | None) -> Sequence[Mapping[str, Any]]:
    """Of this URL; of every one where it is not known here."""
    found = database[COLLECTION].find({} if url is None else {"_id": endpoint_id(url)}).sort("last_failure.at", -1)
    return await found.to_list(None)


async def forget_troubles(database: AsyncDatabase[dict[str, Any]], url: str | None) -> int:
    """So that it is tried again, though it answered 410; how many there were."""
    forgotten = await database[COLLECTION].delete_many({} if url is None else {"_id": endpoint_id(url)})
    return forgotten.deleted_count
