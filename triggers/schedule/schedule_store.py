"""The schedule store: when each schedule fires next, in its trigger document.

`schedule.next_at` exists while a schedule waits for a time, and has its own index, so a check costs what is due. It
advances by compare-and-set, so that one of all schedulers does it; the same write records the skips. In a rollout,
schedulers with other packages may hide a schedule or give it another clock for a while; `schedule.hidden` keeps its
previous state. `schedule.declared` marks the schedules of packages.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from bson.codec_options import DatetimeConversion
from pymongo import ASCENDING, IndexModel, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import BulkWriteError
from ulid import ULID

from triggers.register.skip_notes import pipeline_with_notes
from triggers.register.trigger import Trigger
from triggers.register.trigger_record import TriggerRecord, read_record
from triggers.schedule.schedule_triggers import arm_schedule, spec_key, spec_of
from triggers.schedule.tick_plan import Skips
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec

log = logging.getLogger(__name__)

READ_BATCH_SIZE = 500
REPAIR_BATCH_SIZE = 1000
REPAIR_INTERVAL_S = 5.0
# A scheduler with older packages hides a new schedule, or a new clock of one; a scheduler with newer packages restores
# it. Within this time that counts as a rollout, and the ticks in between still fire.
ROLLOUT = timedelta(minutes=5)
_DUPLICATE_KEY = 11000
_EXCLUDED_FIELDS = {"notes": 0, "counts": 0}  # of a due document: not needed to fire it

INDEX = IndexModel(
    [("schedule.declared", ASCENDING), ("_id", ASCENDING)],
    name="declared_schedules",
    partialFilterExpression={"schedule.declared": True},
)

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DueSchedule:
    """A schedule as it was read: the basis of the compare-and-set."""

    id: str
    trigger: Trigger
    next_at: datetime
    record: TriggerRecord = field(repr=False)

    @property
    def version_query(self) -> dict[str, Any]:
        return {"_id": self.id, **_version_fields(self.trigger), "schedule.next_at": self.next_at}


@dataclass(frozen=True, slots=True)
class ScheduleMove:
    """The advance of a schedule to its next time; None ends it."""

    due: DueSchedule
    next_at: datetime | None
    last_at: datetime | None = None
    skips: Skips = field(default_factory=Skips)
    accepted: int = 0


class ScheduleStore:
    def __init__(self, database: AsyncDatabase[dict[str, Any]]) -> None:
        self.triggers = trigger_collection(database)

    async def ensure_indexes(self) -> None:
        await self.triggers.create_indexes([INDEX])

    async def sync(self, schedules: Mapping[str, Trigger], now: datetime) -> None:
        """Stores the schedules of the packages.

        A new or edited one fires first at its next time.
        """
        found = self.triggers.find({"_id": {"$in": list(schedules)}}, {"schedule": 1})
        stored = {document["_id"]: document.get("schedule") async for document in found}
        writes = [_arm_write(trigger, stored.get(id_), now) for id_, trigger in schedules.items()]
        needed = [write for write in writes if write is not None]
        if needed:
            await self._write(needed)
        gone = {"schedule.declared": True, "_id": {"$nin": list(schedules)}}
        hidden = {"since": now, "spec_key": "$schedule.spec_key", "next_at": "$schedule.next_at"}
        await self.triggers.update_many(
            gone,
            [
                {"$set": {"schedule.hidden": hidden}},
                {"$unset": ["schedule.declared", "schedule.next_at"]},
            ],
        )

    async def find_next_times(self, ids: Collection[str] = ()) -> Mapping[str, datetime]:
        """Returns the next times of all package schedules, and of those ids."""
        query = {"$or": [{"schedule.declared": True}, {"_id": {"$in": list(ids)}}]}
        found = self.triggers.find({**query, "schedule.next_at": {"$type": "date"}}, {"schedule.next_at": 1})
        times = {document["_id"]: read_state(document)[0] async for document in found}
        return {id_: next_at for id_, next_at in times.items() if next_at is not None}

    async def iter_upcoming(self, until: datetime) -> AsyncGenerator[Document, None]:
        """Yields the documents of schedules due by `until`, the oldest first."""
        query = {"schedule.next_at": {"$lte": until}}
        found = self.triggers.find(query, _EXCLUDED_FIELDS, batch_size=READ_BATCH_SIZE).sort(
            "schedule.next_at", ASCENDING
        )
        async with found:
            async for document in found:
                yield document

    async def find_still_due(self, dues: Sequence[DueSchedule]) -> set[str]:
        """Returns the ids of those that are unchanged since they were read."""
        queries = {due.id: due.version_query for due in dues}
        fields = {"schedule.next_at": 1, "schedule.spec_key": 1, "revision": 1}
        found = self.triggers.find({"_id": {"$in": list(queries)}}, fields)
        return {document["_id"] async for document in found if _is_as_read(document, queries[document["_id"]])}

    async def find_if_due(self, due: DueSchedule) -> TriggerRecord | None:
        """Reads one schedule again; None if it was advanced, edited or removed."""
        document = await self.triggers.find_one(due.version_query, _EXCLUDED_FIELDS)
        if document is None:
            return None
        return read_record({**document, "workflow": due.trigger.workflow, "name": due.trigger.spec.name})

    async def advance(self, moves: Sequence[ScheduleMove], now: datetime) -> set[str]:
        """Advances schedules.

        Returns the ids of those that this scheduler advanced, and no other.
        """
        mark = str(ULID())
        failed = await self._write([UpdateOne(move.due.version_query, _full_update(move, now, mark)) for move in moves])
        if failed:  # a damaged document, such as notes that are no list
            await self._write([UpdateOne(move.due.version_query, _minimal_update(move, now, mark)) for move in moves])
        query = {"_id": {"$in": [move.due.id for move in moves]}, "schedule.moved_by": mark}
        return {document["_id"] async for document in self.triggers.find(query, {"_id": 1})}

    async def _write(self, writes: Sequence[UpdateOne]) -> int:
        """Returns the number of failed writes. One failure does not affect the others."""
        try:
            await self.triggers.bulk_write(writes, ordered=False)
        except BulkWriteError as failure:
            details = failure.details or {}
            if details.get("writeConcernErrors"):
                raise
            errors = [error for error in details.get("writeErrors", ()) if error["code"] != _DUPLICATE_KEY]
            if errors:
                log.error("schedules_not_written", extra={"count": len(errors), "code": errors[0]["code"]})
            return len(errors)
        return 0


class ScheduleRepair:
    """Arms schedules created at run time whose state in the store was lost or damaged."""

    def __init__(
        self,
        database: AsyncDatabase[dict[str, Any]],
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        batch_size: int = REPAIR_BATCH_SIZE,
    ) -> None:
        self._triggers = trigger_collection(database)
        self._clock = clock
        self._batch_size = batch_size
        self._checked_until = ""

    async def repair_next_batch(self) -> float:
        """Checks the next batch, round robin. Returns the seconds until the next call."""
        query = {"spec.type": "schedule", "_id": {"$gt": self._checked_until}}
        found = self._triggers.find(query, {"schedule": 1}).sort("_id", ASCENDING).limit(self._batch_size)
        seen = await found.to_list(None)
        for document in seen:
            if read_state(document) == (None, False):
                await self._repair(document)
        self._checked_until = seen[-1]["_id"] if len(seen) == self._batch_size else ""
        return REPAIR_INTERVAL_S

    async def _repair(self, snapshot: Mapping[str, Any]) -> None:
        """Writes only if the state is as it was read. None matches a missing state."""
        as_seen = {"_id": snapshot["_id"], "schedule": snapshot.get("schedule")}
        document = await self._triggers.find_one(as_seen)
        if document is None:
            return
        try:
            record = read_record(document)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            log.error("schedule_unreadable", extra={"trigger": snapshot["_id"], "error": type(error).__name__})
            return
        if isinstance(record.spec, ScheduleSpec):
            unchanged = {**as_seen, "revision": record.revision}
            written = await self._triggers.update_one(
                unchanged, {"$set": {"schedule": arm_schedule(record.spec, self._clock())}}
            )
            if written.modified_count:
                log.warning("schedule_armed_again", extra={"trigger": record.id})


def trigger_collection(database: AsyncDatabase[dict[str, Any]]) -> AsyncCollection[dict[str, Any]]:
    """Reads dates beyond Python's years too: one must not stop all schedules."""
    triggers = database["triggers"]
    lenient = triggers.codec_options.with_options(datetime_conversion=DatetimeConversion.DATETIME_AUTO)
    return triggers.with_options(codec_options=lenient)


def read_state(document: Document) -> tuple[datetime | None, bool]:
    """Returns the next time, and whether the schedule has ended.

    Neither: the state is damaged.
    """
    state = document.get("schedule")
    if not isinstance(state, Mapping):
        return None, False
    next_at = state.get("next_at")
    return (next_at, False) if isinstance(next_at, datetime) else (None, isinstance(state.get("ended_at"), datetime))


def _version_fields(trigger: Trigger) -> dict[str, Any]:
    """Returns what identifies the clock.

    Package schedules have no revision, so their spec key does.
    """
    return (
        {"schedule.spec_key": spec_key(spec_of(trigger))} if trigger.app_id is None else {"revision": trigger.revision}
    )


def _is_as_read(document: Document, expected: Document) -> bool:
    state = document.get("schedule")
    nested = {f"schedule.{name}": value for name, value in state.items()} if isinstance(state, Mapping) else {}
    return all({**document, **nested}.get(name) == value for name, value in expected.items())


def _minimal_update(move: ScheduleMove, now: datetime, mark: str) -> dict[str, Any]:
    changed: dict[str, Any] = {"schedule.moved_by": mark}
    if move.last_at is not None:
        changed["schedule.last_at"] = move.last_at
    if move.next_at is not None:
        return {"$set": {**changed, "schedule.next_at": move.next_at}}
    return {"$set": {**changed, "schedule.ended_at": now}, "$unset": {"schedule.next_at": ""}}


def _full_update(move: ScheduleMove, now: datetime, mark: str) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
    update = _minimal_update(move, now, mark)
    counted = {f"counts.skipped.{reason}": count for reason, count in move.skips.counts.items()}
    if move.accepted:
        counted["counts.accepted"] = move.accepted
        update["$max"] = {"last_fired_at": now}
    if counted:
        update["$inc"] = counted
    notes = [{**note, "at": now} for note in move.skips.notes]
    return pipeline_with_notes(update, notes) if notes else update


def _arm_write(trigger: Trigger, stored: Any, now: datetime) -> UpdateOne | None:
    """Writes only if the state is unchanged: one of two schedulers does it."""
    as_found = {"_id": trigger.id, "schedule": stored}  # None matches a missing state
    state = _new_state(trigger, stored, now)
    if state is None:
        return None
    changed = {"schedule": {**state, "declared": True}, "type": "schedule"}
    first = {"workflow": trigger.workflow, "name": trigger.spec.name, "app_id": None}
    return UpdateOne(as_found, {"$set": changed, "$setOnInsert": first}, upsert=stored is None)


def _new_state(trigger: Trigger, stored: Any, now: datetime) -> dict[str, Any] | None:
    """Returns the state to store; None when it is stored already."""
    spec = spec_of(trigger)
    if not isinstance(stored, Mapping):
        return arm_schedule(spec, now)
    last = {"last_at": stored["last_at"]} if isinstance(stored.get("last_at"), datetime) else {}
    key, (next_at, has_ended) = spec_key(spec), read_state({"schedule": stored})
    if stored.get("spec_key") == key and (next_at is not None or has_ended):
        return None if stored.get("declared") is True else {name: stored[name] for name in stored if name != "hidden"}
    replaced = {}
    if next_at is not None:
        replaced["hidden"] = {"since": now, "spec_key": stored.get("spec_key"), "next_at": next_at}
    if (before := _hidden_next_at(stored.get("hidden"), key, now)) is not None:
        return {"spec_key": key, "next_at": before, **last, **replaced}
    return {**arm_schedule(spec, now, due=next_at), **last, **replaced}


def _hidden_next_at(hidden: Any, key: str, now: datetime) -> datetime | None:
    """Returns the next time of the same clock, if it was hidden within a rollout."""
    if not isinstance(hidden, Mapping) or hidden.get("spec_key") != key:
        return None
    since, next_at = hidden.get("since"), hidden.get("next_at")
    is_of_rollout = isinstance(since, datetime) and isinstance(next_at, datetime) and now - since < ROLLOUT
    return next_at if is_of_rollout else None
