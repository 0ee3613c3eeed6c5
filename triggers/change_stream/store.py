"""The stream store: who reads a stream, how far it got, and what it missed. One document per database.

Every write of a reader is conditional on its lease, so that one that lost it cannot move the position back.
Lease times are the database's clock ($$NOW).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bson.timestamp import Timestamp
from pymongo import ReturnDocument
from pymongo.asynchronous.database import AsyncDatabase

RUNNING = "running"
SUSPENDED = "suspended"
MAX_GAPS_KEPT = 100


@dataclass(frozen=True, slots=True)
class Position:
    """Everything before it is in the run store. `time` is known when the token is that of an event."""

    token: Mapping[str, Any] | None = None
    time: Timestamp | None = None


@dataclass(frozen=True, slots=True)
class StreamRecord:
    position: Position
    saved_at: datetime | None
    state: str


@dataclass(frozen=True, slots=True)
class Gap:
    """Changes between the two times may have started no run; `end` None: not over yet."""

    start: datetime | None
    end: datetime | None
    reason: str

    def document(self) -> dict[str, Any]:
        return {"from": self.start, "to": self.end, "reason": self.reason, "at": datetime.now(UTC)}


class StreamStore:
    """Streams of one watcher: `owner` is unlike any other's."""

    def __init__(self, database: AsyncDatabase[dict[str, Any]], *, owner: str, lease_s: float) -> None:
        self.streams = database["streams"]
        self._owner = owner
        self._until = {"$add": ["$$NOW", round(lease_s * 1000)]}

    async def acquire(self, stream: str) -> StreamRecord | None:
        """Takes or renews the lease; None while another watcher holds it."""
        free = {
            "_id": stream,
            "$or": [{"lease.owner": self._owner}, {"$expr": {"$lt": ["$lease.until", "$$NOW"]}}],
        }
        taken = [{"$set": {"lease": {"owner": self._owner, "until": self._until}}}]
        found = await self.streams.find_one_and_update(free, taken, return_document=ReturnDocument.AFTER)
        if found is None and await self._create(stream):
            found = await self.streams.find_one_and_update(free, taken, return_document=ReturnDocument.AFTER)
        if found is None:
            return None
        position = Position(found.get("resume_token"), found.get("token_time"))
        return StreamRecord(position, found.get("token_saved_at"), found.get("state", RUNNING))

    async def _create(self, stream: str) -> bool:
        """An upsert cannot ask for the server's time, so the document comes first and the lease second."""
        new: dict[str, Any] = {
            "lease": {"owner": None, "until": None},
            "state": RUNNING,
            "resume_token": None,
            "gaps": [],
        }
        written = await self.streams.update_one({"_id": stream}, {"$setOnInsert": new}, upsert=True)
        return written.upserted_id is not None

    async def save(self, stream: str, position: Position) -> bool:
        """Keeps the lease as well. False: it is another watcher's now, and nothing was written."""
        saved = {
            "resume_token": {"$literal": position.token},
            "token_time": position.time,
            "token_saved_at": "$$NOW",
            "lease.until": self._until,
        }
        return await self._write(stream, [{"$set": saved}])

    async def suspend(self, stream: str, gap: Gap) -> bool:
        """Until an operator, or a package that says resume_now, lets it go on."""
        return await self._write(stream, {"$set": {"state": SUSPENDED}, **_push(gap)})

    async def record_gap(self, stream: str, gap: Gap) -> bool:
        return await self._write(stream, _push(gap))

    async def resume_from_now(self, stream: str) -> None:
        """Forgets the position; the gap that is open ends now."""
        now = datetime.now(UTC)
        fresh = {"state": RUNNING, "resume_token": None, "token_time": None, "gaps.$[open].to": now}
        await self.streams.update_one({"_id": stream}, {"$set": fresh}, array_filters=[{"open.to": None}])

    async def release(self, stream: str) -> None:
        await self._write(stream, {"$set": {"lease": {"owner": None, "until": None}}})

    async def _write(self, stream: str, update: Any) -> bool:
        written = await self.streams.update_one({"_id": stream, "lease.owner": self._owner}, update)
        return written.matched_count == 1


def _push(gap: Gap) -> dict[str, Any]:
    return {"$push": {"gaps": {"$each": [gap.document()], "$slice": -MAX_GAPS_KEPT}}}
