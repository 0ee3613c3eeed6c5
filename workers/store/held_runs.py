"""Held runs: the runs that wait for each limit, and those that were released.

A released run stays in the index as `released:<limit>` until a worker claims it. It counts as running for each of its
limits, so that no other run is released for the same room.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pymongo import ASCENDING, DESCENDING
from pymongo.read_concern import ReadConcern

from workers.store.limit_name import RELEASED_PREFIX, LimitKind, LimitName, parse_limit, range_of
from workers.store.run import RunState
from workers.store.run_document import READY, Document, literal
from workers.store.run_order import ORDER_PREFIX, ORDER_PREFIX_END
from workers.store.run_store import RunStore

_ALL_RELEASED = {"$gte": RELEASED_PREFIX, "$lt": f"{RELEASED_PREFIX[:-1]};"}
_INDEX = "by_limit_and_workflow"
_COUNTED_BY = {LimitKind.APP: ("app_id", "running_by_app"), LimitKind.WORKFLOW: ("workflow", "running_by_workflow")}
_URGENT_FIRST = {"priority": DESCENDING, "_id": ASCENDING}
_ORDER = {"app_id": ASCENDING, "workflow": ASCENDING, **_URGENT_FIRST}
_SORT = list(_ORDER.items())
_READ_FIELDS = dict.fromkeys(("app_id", "workflow", "priority", "started_at"), 1)
# Skips through the index with a seek for each limit (DISTINCT_SCAN), since the order is that of the index. `$exists`
# instead of `$gte` would read every document.
LIMITS_PIPELINE: list[Mapping[str, object]] = [
    {"$sort": {"held_by": ASCENDING, **_ORDER}},
    {"$group": {"_id": "$held_by"}},
]
# Order keys are left out: there may be a hundred thousand of them.
_NON_ORDER_RANGES: tuple[Mapping[str, str], ...] = ({"$gte": "", "$lt": ORDER_PREFIX}, {"$gte": ORDER_PREFIX_END})


@dataclass(frozen=True, slots=True)
class Head:
    """The most urgent waiting run of an app and a workflow."""

    app_id: str
    workflow: str
    run_id: str
    priority: int
    has_started: bool = False  # such as a retry: a rate counts first starts and does not hold it

    @property
    def urgency(self) -> tuple[int, str]:
        """The sort key: priority first, then age, as run ids sort by time."""
        return -self.priority, self.run_id


def _held_by(limit: LimitName) -> Document:
    """Returns the query for all runs that the limit holds.

    The limit or rate of an app holds runs of that app only.
    """
    held = {"held_by": str(limit)}
    return {**held, "app_id": limit.name} if limit.kind in (LimitKind.APP, LimitKind.RATE) else held


def _scope_query(head: Head) -> Document:
    return {"app_id": head.app_id, "workflow": head.workflow}


def heads_pipeline(limit: LimitName) -> list[Mapping[str, object]]:
    """Returns the pipeline for the first run of each group, with a seek for each."""
    group = "app_id" if limit.kind is LimitKind.WORKFLOW else "workflow"
    firsts = {name: {"$first": f"${name}"} for name in ("app_id", "workflow", "priority", "started_at")}
    order = _ORDER if limit.kind is LimitKind.WORKFLOW else {"workflow": ASCENDING, **_URGENT_FIRST}
    return [
        {"$match": _held_by(limit)},
        {"$sort": order},
        {"$group": {"_id": f"${group}", "first": {"$first": "$_id"}, **firsts}},
    ]


def _to_head(run: Mapping[str, Any], run_id: str) -> Head:
    return Head(run["app_id"], run["workflow"], run_id, run["priority"], run["started_at"] is not None)


class HeldRuns:
    def __init__(self, store: RunStore) -> None:
        # Local reads see our own claim and all before it. Majority reads may miss some just after an election, and two
        # claims would both find room. A claim that is rolled back later only counts too much.
        self._runs = store.runs.with_options(read_concern=ReadConcern("local"))
        self._republish_after_ms = int(store.republish_after.total_seconds() * 1000)

    async def list_limits(self) -> list[LimitName]:
        """Lists all limits that hold a run, except orders."""
        names: list[str] = []
        for name_range in _NON_ORDER_RANGES:
            found = await self._runs.aggregate([{"$match": {"held_by": name_range}}, *LIMITS_PIPELINE], hint=_INDEX)
            names += [row["_id"] async for row in found]
        return [limit for name in names if (limit := parse_limit(name)) is not None]

    async def limits_of(self, kind: LimitKind) -> list[LimitName]:
        found = await self._runs.aggregate([{"$match": {"held_by": range_of(kind)}}, *LIMITS_PIPELINE], hint=_INDEX)
        return [LimitName(kind, row["_id"].partition(":")[2]) async for row in found]

    async def has_waiters(self, limit: LimitName) -> bool:
        return await self._runs.find_one({"held_by": str(limit)}, {"_id": 1}, hint=_INDEX) is not None

    async def list_heads(self, limit: LimitName) -> list[Head]:
        found = await self._runs.aggregate(heads_pipeline(limit), hint=_INDEX)
        return [_to_head(row, row["first"]) async for row in found]

    async def next_app(self, limit: LimitName, *, after: str, up_to: str | None) -> Head | None:
        """Returns the head of the next app by name that waits for this workflow."""
        bounds = {"$gt": after} if up_to is None else {"$gt": after, "$lte": up_to}
        found = self._runs.find({"held_by": str(limit), "app_id": bounds}, _READ_FIELDS, hint=_INDEX)
        return next((_to_head(run, run["_id"]) for run in await found.sort(_SORT).limit(1).to_list(1)), None)

    async def next_waiting(self, limit: LimitName, head: Head, count: int) -> list[Head]:
        """Returns the most urgent `count` runs of the app and workflow of this head."""
        found = (
            self._runs.find({"held_by": str(limit), **_scope_query(head)}, _READ_FIELDS, hint=_INDEX)
            .sort(_SORT)
            .limit(count)
        )
        return [_to_head(run, run["_id"]) async for run in found]

    async def move(self, head: Head, limit: LimitName, *, to: LimitName) -> None:
        """Moves a run to its other limit, unless one such run waits there already."""
        if await self._runs.find_one({"held_by": str(to), **_scope_query(head)}, {"_id": 1}, hint=_INDEX) is None:
            held = {"_id": head.run_id, "held_by": str(limit), "state": RunState.QUEUED.value}
            await self._runs.update_one(held, {"$set": {"held_by": str(to), "hold": to.hold_kind.value}})

    async def count_taken(self, limit: LimitName, *, up_to: int) -> int:
        """Counts the room in use.

        Released runs are counted before running ones: a run that starts in between may count twice, but is never
        missed.
        """
        released = await self.count_released(limit, up_to=up_to)
        return released + await self.count_running(limit, up_to=up_to)

    async def count_released(self, limit: LimitName, *, up_to: int) -> int:
        field = "workflow" if limit.kind is LimitKind.WORKFLOW else "app_id"
        query = {"held_by": _ALL_RELEASED, field: limit.name}
        return await self._runs.count_documents(query, limit=up_to, hint=_INDEX)

    async def count_running(self, limit: LimitName, *, up_to: int) -> int:
        field, index = _COUNTED_BY[limit.kind]
        query = {field: limit.name, "state": RunState.RUNNING.value}
        return await self._runs.count_documents(query, limit=up_to, hint=index)

    async def release(self, limit: LimitName, run_ids: Sequence[str]) -> int:
        """Releases the runs; returns how many of them still waited."""
        held = {"held_by": str(limit), "state": RunState.QUEUED.value, "_id": {"$in": [*run_ids]}}
        lost_at = {"$add": ["$$NOW", self._republish_after_ms]}
        ready = {**READY, "held_by": literal(limit.released_name), "wake_at": lost_at, "wakes": 0}
        return (await self._runs.update_many(held, [{"$set": ready}])).modified_count

    async def apps_of(self, limit: LimitName) -> list[str]:
        """Lists the apps that wait for this limit, with a seek for each."""
        steps: list[Mapping[str, object]] = [
            {"$match": {"held_by": str(limit)}},
            {"$sort": {"held_by": ASCENDING, **_ORDER}},
            {"$group": {"_id": "$app_id"}},
        ]
        return [row["_id"] async for row in await self._runs.aggregate(steps, hint=_INDEX)]

    async def count_released_by(self, limit: LimitName, app_id: str | None) -> int:
        """Counts the runs that the limit has released and no worker has claimed yet.

        Counts those of all apps, or of one.
        """
        return await self._runs.count_documents({"held_by": limit.released_name, **_of_app(app_id)}, hint=_INDEX)

    async def most_urgent(self, limit: LimitName, app_id: str | None, *, count: int) -> list[str]:
        found = self._runs.find({"held_by": str(limit), **_of_app(app_id)}, {"_id": 1}, hint=_INDEX)
        return [run["_id"] async for run in found.sort(list(_URGENT_FIRST.items())).limit(count)]


def _of_app(app_id: str | None) -> Document:
    return {} if app_id is None else {"app_id": app_id}
