"""Held runs: which runs wait for which limit, and which were released.

A released run stays in the index, as `released:<limit>`, until a worker claims it: it counts as running already, for
each of its limits, so that nobody releases another one for the same room.
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
# Answered by skipping through the index, a seek for each limit (DISTINCT_SCAN): the order is the index's own. `$exists`
# in the place of `$gte` would read every document there is.
LIMITS_PIPELINE: list[Mapping[str, object]] = [
    {"$sort": {"held_by": ASCENDING, **_ORDER}},
    {"$group": {"_id": "$held_by"}},
]
# What waits for its turn in an order may be a hundred thousand names.
_NON_ORDER_RANGES: tuple[Mapping[str, str], ...] = ({"$gte": "", "$lt": ORDER_PREFIX}, {"$gte": ORDER_PREFIX_END})


@dataclass(frozen=True, slots=True)
class Head:
    """The most urgent run of an app that waits for a workflow, or of a workflow in which an app waits."""

    app_id: str
    workflow: str
    run_id: str
    priority: int
    has_started: bool = False  # a retry, say: a rate, which counts starts, does not hold it

    @property
    def urgency(self) -> tuple[int, str]:
        """Priority first, then age: run ids sort by time."""
        return -self.priority, self.run_id


def _held_by(limit: LimitName) -> Document:
    """All runs that the limit holds; those of an app's limit, or of its rate, all have this app."""
    held = {"held_by": str(limit)}
    return {**held, "app_id": limit.name} if limit.kind in (LimitKind.APP, LimitKind.RATE) else held


def _scope_query(head: Head) -> Document:
    return {"app_id": head.app_id, "workflow": head.workflow}


def heads_pipeline(limit: LimitName) -> list[Mapping[str, object]]:
    """A seek for each, too."""
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
        # Local: it has our own claim and all before it. A majority that a new primary does not know of yet has not, and
        # two that count just after an election would both find room. What is rolled back is counted for nothing.
        self._runs = store.runs.with_options(read_concern=ReadConcern("local"))
        self._republish_after_ms = int(store.republish_after.total_seconds() * 1000)

    async def list_limits(self) -> list[LimitName]:
        """All limits that hold any run, but for orders."""
        names: list[str] = []
        for some in _NON_ORDER_RANGES:
            found = await self._runs.aggregate([{"$match": {"held_by": some}}, *LIMITS_PIPELINE], hint=_INDEX)
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
        """Of the first app that waits for this workflow and comes after that one, in order of names."""
        bounds = {"$gt": after} if up_to is None else {"$gt": after, "$lte": up_to}
        found = self._runs.find({"held_by": str(limit), "app_id": bounds}, _READ_FIELDS, hint=_INDEX)
        return next((_to_head(run, run["_id"]) for run in await found.sort(_SORT).limit(1).to_list(1)), None)

    async def next_waiting(self, limit: LimitName, head: Head, count: int) -> list[Head]:
        """So many of those that this one stands for, the most urgent first."""
        found = (
            self._runs.find({"held_by": str(limit), **_scope_query(head)}, _READ_FIELDS, hint=_INDEX)
            .sort(_SORT)
            .limit(count)
        )
        return [_to_head(run, run["_id"]) async for run in found]

    async def move(self, head: Head, limit: LimitName, *, to: LimitName) -> None:
        """To wait for its other limit, unless one such run does already."""
        if await self._runs.find_one({"held_by": str(to), **_scope_query(head)}, {"_id": 1}, hint=_INDEX) is None:
            held = {"_id": head.run_id, "held_by": str(limit), "state": RunState.QUEUED.value}
            await self._runs.update_one(held, {"$set": {"held_by": str(to), "hold": to.hold_kind.value}})

    async def count_taken(self, limit: LimitName, *, up_to: int) -> int:
        """Counts released before running: a run starting in between may count twice but is never missed."""
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
        """How many of them waited still."""
        held = {"held_by": str(limit), "state": RunState.QUEUED.value, "_id": {"$in": [*run_ids]}}
        lost_at = {"$add": ["$$NOW", self._republish_after_ms]}
        ready = {**READY, "held_by": literal(limit.released_name), "wake_at": lost_at, "wakes": 0}
        return (await self._runs.update_many(held, [{"$set": ready}])).modified_count

    async def apps_of(self, limit: LimitName) -> list[str]:
        """The apps that wait for this limit: a seek for each."""
        steps: list[Mapping[str, object]] = [
            {"$match": {"held_by": str(limit)}},
            {"$sort": {"held_by": ASCENDING, **_ORDER}},
            {"$group": {"_id": "$app_id"}},
        ]
        return [row["_id"] async for row in await self._runs.aggregate(steps, hint=_INDEX)]

    async def count_released_by(self, limit: LimitName, app_id: str | None) -> int:
        """Counts the runs, of all apps or of one, that it has released and no worker has claimed yet."""
        return await self._runs.count_documents({"held_by": limit.released_name, **_of_app(app_id)}, hint=_INDEX)

    async def most_urgent(self, limit: LimitName, app_id: str | None, *, count: int) -> list[str]:
        found = self._runs.find({"held_by": str(limit), **_of_app(app_id)}, {"_id": 1}, hint=_INDEX)
        return [run["_id"] async for run in found.sort(list(_URGENT_FIRST.items())).limit(count)]


def _of_app(app_id: str | None) -> Document:
    return {} if app_id is None else {"app_id": app_id}
