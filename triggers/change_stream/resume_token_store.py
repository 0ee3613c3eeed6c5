"""The stream store: who reads a stream, how far it got, and what it missed. One document per stream.

Every write of a reader is conditional on its lease, so that one that lost it cannot move the position back.
Lease times are the database's clock ($$NOW).
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
    """Everything before it is in the run store. `time` is known when the token is that of an event."""

    token: Mapping[str, Any] | None = None
    time: Timestamp | None = None

    @property
    def reached_time(self) -> Timestamp | None:
        """Of a token the time it begins with, since `time` may be that of a much earlier event. None: nobody knows."""
        if self.token is None:
            return self.time
        found = _TOKEN_TIME.match(str(self.token.get("_data")))
        return None if found is None else Timestamp(int(found[1], 16), int(found[2], 16))


@dataclass(frozen=True, slots=True)
class Gap:
    """Changes between the two times may have started no run; `end` None: not over yet."""

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
    """A trigger that a stream was read for until not long ago, and up to where."""

    trigger: str
    reached: Timestamp
    at: datetime


@dataclass(frozen=True, slots=True)
class StreamRecord:
    id: str
    position: StreamPosition
    saved_at: datetime | None
    state: str
    refusal: str | None  # in MongoDB's words
    triggers: frozenset[str] | None  # that it is read for; None: it was written by an older version
    left: Sequence[LeftTrigger]


def read_gaps(document: Mapping[str, Any]) -> list[Gap]:
    return [Gap(each["from"], each["to"], each["reason"], each.get("at")) for each in document.get("gaps", ())]


class StreamStore:
    """Streams of one watcher: `owner` is unlike any other's."""

    def __init__(self, database: AsyncDatabase[dict[str, Any]], *, owner: str, lease_s: float) -> None:
        self.streams = database["streams"]
        self._owner = owner
        self._lease_end = {"$add": ["$$NOW", round(lease_s * 1000)]}

    async def acquire_lease(self, stream: str) -> StreamRecord | None:
        """Takes or renews the lease; None while another watcher holds it."""
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
        """As `acquire`, and None as well where nobody has it any more: an operator takes the lease away."""
        found = await self.streams.find_one({"_id": stream, "lease.owner": self._owner})
        return None if found is None else _read_record(found)

    async def find_others(self, triggers: Collection[str], *, except_stream: str) -> Sequence[StreamRecord]:
        """Other streams that are or were read for one of them."""
        ids = {"$in": [*triggers]}
        found = self.streams.find({"$or": [{"triggers": ids}, {"left.trigger": ids}], "_id": {"$ne": except_stream}})
        return [_read_record(each) async for each in found]

    async def join(
        self, record: StreamRecord, triggers: Collection[str], *, position: StreamPosition, gaps: Sequence[Gap]
    ) -> bool:
        """From now on it is read for these, from there, and no other stream is. Those that it is no longer read for may
        be on their way to another one: where they were is kept."""
        place = {"triggers": sorted(triggers), "resume_token": position.token, "token_time": position.time}
        leaving = (record.triggers or frozenset()).difference(triggers)
        now, reached = datetime.now(UTC), record.position.reached_time
        left = [each for each in record.left if each.trigger not in triggers]
        if reached is not None:
            left += [LeftTrigger(id_, reached, now) for id_ in sorted(leaving)]
        written: dict[str, Any] = {"$set": {**place, "left": [asdict(each) for each in left[-MAX_LEFT_TRIGGERS:]]}}
        if gaps:
            written |= _push_gaps(*gaps)
        if not await self._write(record.id, written):
            return False
        ids = {"$in": [*triggers]}
        elsewhere = {"_id": {"$ne": record.id}, "$or": [{"triggers": ids}, {"left.trigger": ids}]}
        await self.streams.update_many(elsewhere, {"$pull": {"triggers": ids, "left": {"trigger": ids}}})
        return True

    async def _create(self, stream: str) -> bool:
        """An upsert cannot ask for the server's time, so the document comes first and the lease second."""
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
        """Keeps the lease as well. False: it is another watcher's now, and nothing was written."""
        saved = {
            "resume_token": {"$literal": position.token},
            "token_time": position.time,
            "token_saved_at": "$$NOW",
            "lease.until": self._lease_end,
        }
        return await self._write(stream, [{"$set": saved}])

    async def renew_lease(self, stream: str) -> bool:
        """Keeps the lease while events are worked on. False: it is another watcher's now."""
        return await self._write(stream, [{"$set": {"lease.until": self._lease_end}}])

    async def suspend(self, stream: str, gap: Gap) -> bool:
        """Until an operator, or a package that says resume_now, lets it go on."""
        return await self._write(stream, {"$set": {"state": SUSPENDED}, **_push_gaps(gap)})

    async def record_gap(self, stream: str, gap: Gap) -> bool:
        return await self._write(stream, _push_gaps(gap))

    async def resume_from_now(self, stream: str, now: Timestamp) -> bool:
        """Gives the position up; the gap that is open ends now. Whoever reads it next, and however much later, goes on
        from this moment."""
        ended_at = datetime.now(UTC)
        fresh = {"state": RUNNING, "resume_token": None, "token_time": now, "gaps.$[open].to": ended_at}
        return await self._write(stream, {"$set": fresh}, array_filters=[{"open.to": None}])

    async def record_refusal(self, stream: str, reason: str) -> None:
        """For whoever asks why nothing comes; told once, and taken back by `accepted`."""
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
            LeftTrigger(**each) for each in document.get("left", ()) if datetime.now(UTC) - each["at"] < LEFT_RETENTION
        ),
    )


def _push_gaps(*gaps: Gap) -> dict[str, Any]:
    return {"$push": {"gaps": {"$each": [gap.as_document() for gap in gaps], "$slice": -MAX_STORED_GAPS}}}
