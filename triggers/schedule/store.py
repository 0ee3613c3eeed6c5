"""The schedule store: when each schedule fires next, and which ticks it skipped and why.

One document per schedule, moved on by compare-and-set on `next_at`: of any number of schedulers one moves it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pymongo import ASCENDING, UpdateOne
from pymongo.asynchronous.database import AsyncDatabase

from triggers.schedule.plan import next_nominal
from triggers.schedule.schedules import Schedule

MAX_DUE = 1000
MAX_SKIPS_KEPT = 20
# A scheduler with older packages does not know a new schedule and marks it inactive, one with newer ones marks
# it active again. While that may be a rollout, the ticks in between still count.
ROLLOUT = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Due:
    """A stored schedule as it was read: the ground for the compare-and-set."""

    id: str
    spec_key: str
    next_at: datetime


@dataclass(frozen=True, slots=True)
class Skip:
    """Ticks from `nominal_at` to `until` that started no run; `app_id` None means no app's."""

    reason: str
    nominal_at: datetime
    app_id: str | None = None
    count: int = 1
    until: datetime | None = None
    exact: bool = True

    def document(self, now: datetime) -> dict[str, Any]:
        names = ("reason", "nominal_at", "app_id", "count", "until", "exact")
        return {**{name: getattr(self, name) for name in names}, "at": now}


class ScheduleStore:
    def __init__(self, database: AsyncDatabase[dict[str, Any]]) -> None:
        self.schedules = database["schedules"]

    async def ensure_indexes(self) -> None:
        await self.schedules.create_index([("active", ASCENDING), ("next_at", ASCENDING)], name="by_next_time")

    async def sync(self, schedules: Mapping[str, Schedule], now: datetime) -> None:
        """A schedule first seen, edited, or long away fires first at its next nominal time, not at once."""
        found = {document["_id"]: document async for document in self.schedules.find({"_id": {"$in": list(schedules)}})}
        writes = [_arming(schedule, found.get(schedule.id), now) for schedule in schedules.values()]
        needed = [write for write in writes if write is not None]
        if needed:
            await self.schedules.bulk_write(needed, ordered=False)
        await self.schedules.update_many(
            {"active": True, "_id": {"$nin": list(schedules)}}, {"$set": {"active": False, "inactive_since": now}}
        )

    async def next_times(self) -> Mapping[str, datetime]:
        """When each active schedule fires next."""
        found = self.schedules.find({"active": True}, {"next_at": 1})
        return {each["_id"]: each["next_at"] async for each in found}

    async def upcoming(self, until: datetime) -> Sequence[Due]:
        """The schedules whose next time is not after `until`, the longest due first."""
        query = {"active": True, "next_at": {"$lte": until}}
        found = self.schedules.find(query, {"spec_key": 1, "next_at": 1}).sort("next_at", ASCENDING)
        return [Due(each["_id"], each["spec_key"], each["next_at"]) for each in await found.to_list(MAX_DUE)]

    async def is_current(self, due: Due) -> bool:
        return await self.schedules.find_one(_as_read(due), {"_id": 1}) is not None

    async def advance(
        self, due: Due, *, next_at: datetime, last_at: datetime | None, skips: Sequence[Skip], now: datetime
    ) -> bool:
        """True for the one scheduler that moves it; what was skipped is recorded by the same write."""
        changed: dict[str, Any] = {"next_at": next_at, "updated_at": now}
        if last_at is not None:
            changed["last_at"] = last_at
        update: dict[str, Any] = {"$set": changed}
        if skips:
            kept = [skip.document(now) for skip in skips[-MAX_SKIPS_KEPT:]]
            update["$push"] = {"skips": {"$each": kept, "$slice": -MAX_SKIPS_KEPT}}
            update["$inc"] = _counts(skips)
        return (await self.schedules.update_one(_as_read(due), update)).matched_count == 1


def _as_read(due: Due) -> dict[str, Any]:
    return {"_id": due.id, "next_at": due.next_at, "spec_key": due.spec_key}


def _counts(skips: Sequence[Skip]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for skip in skips:
        name = f"skip_counts.{skip.reason}"
        counts[name] = counts.get(name, 0) + skip.count
    return counts


def _arming(schedule: Schedule, found: Mapping[str, Any] | None, now: datetime) -> UpdateOne | None:
    armed = {
        "workflow": schedule.workflow,
        "trigger": schedule.spec.name,
        "spec_key": schedule.spec_key,
        "next_at": next_nominal(schedule.spec, after=now),
        "active": True,
        "inactive_since": None,
        "updated_at": now,
    }
    if found is None:
        first = {**armed, "last_at": None, "skips": [], "skip_counts": {}}
        return UpdateOne({"_id": schedule.id}, {"$setOnInsert": first}, upsert=True)
    as_found = {"_id": schedule.id, "spec_key": found["spec_key"], "active": found["active"]}
    if found["spec_key"] != schedule.spec_key:
        return UpdateOne(as_found, {"$set": armed})
    if found["active"]:
        return None
    if now - found["inactive_since"] < ROLLOUT:
        return UpdateOne(as_found, {"$set": {"active": True, "inactive_since": None}})
    return UpdateOne(as_found, {"$set": armed})
