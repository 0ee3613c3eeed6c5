"""The stream store: lease, resume token and gaps, one document per stream.

Each write of a reader is conditional on its lease, so that a reader that lost it cannot move the position back.
Leases use the database's clock ($$NOW).
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from bson.timestamp import Timestamp
from pymongo import ReturnDocument
from pymongo.asynchronous.database import AsyncDatabase

RUNNING = "running"
SUSPENDED = "suspended"
MAX_STORED_GAPS = 100
MAX_LEFT_TRIGGERS = 1000
LEFT_RETENTION = timedelta(hours=1)
FREE_LEASE: Mapping[str, None] = {"owner": None, "until": None}
_TOKEN_TIME = re.compile("82([0-9A-F]{8})([0-9A-F]{8})")


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """A position in a stream: the runs of all earlier events are durable.

    `time` is known for the token of an event.
    """

    token: Mapping[str, Any] | None = None
    time: Timestamp | None = None

    @property
    def reached_time(self) -> Timestamp | None:
        """The time in the token: `time` may be that of a much earlier event."""
        if self.token is None:
            return self.time
        found = _TOKEN_TIME.match(str(self.token.get("_data")))
        return None if found is None else Timestamp(int(found[1], 16), int(found[2], 16))


@dataclass(frozen=True, slots=True)
class Gap:
    """Changes between the two times may have started no run.

    `end` None: the gap is open.
    """

    start: datetime | None
    end: datetime | None
    reason: str
    noticed_at: datetime | None = None

    def close_at(self, end: datetime) -> "Gap":
        return replace(self, end=end)

    def as_document(self) -> dict[str, Any]:
        noticed_at = self.noticed_at or datetime.now(UTC)
        return {"from": self.start, "to": self.end, "reason": self.reason, "at": noticed_at}


@dataclass(frozen=True, slots=True)
class LeftTrigger:
    """A trigger that left a stream recently, and the time that it reached."""

    trigger: str
    reached: Timestamp
    at: datetime


@dataclass(frozen=True, slots=True)
class StreamRecord:
    id: str
    position: StreamPosition
    saved_at: datetime | None
    state: str
    refusal: str | None  # MongoDB's message
    triggers: frozenset[str] | None  # it is read for these; None: written by an older version
    left: Sequence[LeftTrigger]
    resumed_at: datetime | None = None  # when an operator moved it last


def read_gaps(document: Mapping[str, Any]) -> list[Gap]:
    return [Gap(gap["from"], gap["to"], gap["reason"], gap.get("at")) for gap in document.get("gaps", ())]


class StreamStore:
    """The streams of one watcher. `owner` is unique to it."""

    def __init__(self, database: AsyncDatabase[dict[str, Any]], *, owner: str, lease_s: float) -> None:
        self.streams = database["streams"]
        self._owner = owner
        self._lease_end = {"$add": ["$$NOW", round(lease_s * 1000)]}

    async def acquire_lease(self, stream: str) -> StreamRecord | None:
        """Acquires or renews the lease; returns None while another watcher holds it."""
        free = {
            "_id": stream,
            "$or": [{"lease.owner": self._owner}, {"$expr": {"$lt": ["$lease.until", "$$NOW"]}}],
        }
        taken = [{"$set": {"lease": {"owner": self._owner, "until": self._lease_end}}}]
        found = await self.streams.find_one_and_update(free, taken, return_document=ReturnDocument.AFTER)
        if found is None and await self._create(stream):
            found = await self.streams.find_one_and_update(free, taken, return_document=ReturnDocument.AFTER)
        return None if found is None else _read_record(found)

    async def find_leased(self, stream: str) -> StreamRecord | None:
        """Reads a stream if this watcher still holds its lease: an operator may remove it."""
        found = await self.streams.find_one({"_id": stream, "lease.owner": self._owner})
        return None if found is None else _read_record(found)

    async def find_others(self, triggers: Collection[str], *, except_stream: str) -> Sequence[StreamRecord]:
        """Returns other streams that are or were read for one of these triggers."""
        ids = {"$in": [*triggers]}
        found = self.streams.find({"$or": [{"triggers": ids}, {"left.trigger": ids}], "_id": {"$ne": except_stream}})
        return [_read_record(document) async for document in found]

    async def join(
        self, record: StreamRecord, triggers: Collection[str], *, position: StreamPosition, gaps: Sequence[Gap]
    ) -> bool:
        """Makes this stream the only one of these triggers, read from `position`.

        Returns False without the lease.

        A trigger that leaves may move to another stream, so its position is stored.
        """
        fields = {"triggers": sorted(triggers), "resume_token": position.token, "token_time": position.time}
        leaving = (record.triggers or frozenset()).difference(triggers)
        now, reached = datetime.now(UTC), record.position.reached_time
        left = [entry for entry in record.left if entry.trigger not in triggers]
        if reached is not None:
            left += [LeftTrigger(id_, reached, now) for id_ in sorted(leaving)]
        update: dict[str, Any] = {"$set": {**fields, "left": [asdict(entry) for entry in left[-MAX_LEFT_TRIGGERS:]]}}
        if gaps:
            update |= _push_gaps(*gaps)
        if not await self._write(record.id, update):
            return False
        ids = {"$in": [*triggers]}
        elsewhere = {"_id": {"$ne": record.id}, "$or": [{"triggers": ids}, {"left.trigger": ids}]}
        await self.streams.update_many(elsewhere, {"$pull": {"triggers": ids, "left": {"trigger": ids}}})
        return True

    async def _create(self, stream: str) -> bool:
        """Creates the document before the lease: an upsert cannot use the server's time."""
        new: dict[str, Any] = {
            "lease": dict(FREE_LEASE),
            "state": RUNNING,
            "resume_token": None,
            "gaps": [],
            "triggers": [],
        }
        written = await self.streams.update_one({"_id": stream}, {"$setOnInsert": new}, upsert=True)
        return written.upserted_id is not None

    async def save_position(self, stream: str, position: StreamPosition) -> bool:
        """Saves the position and renews the lease.

        Returns False without writing if the lease is lost.
        """
        saved = {
            "resume_token": {"$literal": position.token},
            "token_time": position.time,
            "token_saved_at": "$$NOW",
            "lease.until": self._lease_end,
        }
        return await self._write(stream, [{"$set": saved}])

    async def renew_lease(self, stream: str) -> bool:
        """Renews the lease while events are processed. Returns False if it is lost."""
        return await self._write(stream, [{"$set": {"lease.until": self._lease_end}}])

    async def suspend(self, stream: str, gap: Gap) -> bool:
        """Suspends the stream until an operator or `resume_now` resumes it."""
        return await self._write(stream, {"$set": {"state": SUSPENDED}, **_push_gaps(gap)})

    async def record_gap(self, stream: str, gap: Gap) -> bool:
        return await self._write(stream, _push_gaps(gap))

    async def resume_from_now(self, stream: str, now: Timestamp) -> bool:
        """Drops the position and closes the open gap.

        The next reader resumes from this moment, however late.
        """
        ended_at = datetime.now(UTC)
        fresh = {"state": RUNNING, "resume_token": None, "token_time": now, "gaps.$[open].to": ended_at}
        return await self._write(stream, {"$set": fresh}, array_filters=[{"open.to": None}])

    async def record_refusal(self, stream: str, reason: str) -> None:
        """Stores MongoDB's refusal for `triggers show`, until `clear_refusal`."""
        await self._write(stream, {"$set": {"refused": {"words": reason, "at": datetime.now(UTC)}}})

    async def clear_refusal(self, stream: str) -> None:
        await self._write(stream, {"$unset": {"refused": ""}})

    async def release_lease(self, stream: str) -> None:
        await self._write(stream, {"$set": {"lease": dict(FREE_LEASE)}})

    async def _write(self, stream: str, update: Any, array_filters: Sequence[Mapping[str, Any]] | None = None) -> bool:
        written = await self.streams.update_one(
            {"_id": stream, "lease.owner": self._owner}, update, array_filters=array_filters
        )
        return written.matched_count == 1


def _read_record(document: Mapping[str, Any]) -> StreamRecord:
    triggers = document.get("triggers")
    return StreamRecord(
        id=document["_id"],
        position=StreamPosition(document.get("resume_token"), document.get("token_time")),
        saved_at=document.get("token_saved_at"),
        state=document.get("state", RUNNING),
        refusal=(document.get("refused") or {}).get("words"),
        triggers=None if triggers is None else frozenset(triggers),
        left=tuple(
            LeftTrigger(**left) for left in document.get("left", ()) if datetime.now(UTC) - left["at"] < LEFT_RETENTION
        ),
        resumed_at=(document.get("resumed") or {}).get("at"),
    )


def _push_gaps(*gaps: Gap) -> dict[str, Any]:
    return {"$push": {"gaps": {"$each": [gap.as_document() for gap in gaps], "$slice": -MAX_STORED_GAPS}}}
