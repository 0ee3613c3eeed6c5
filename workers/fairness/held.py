"""Held runs: who waits for which limit, and who is on its way.

A run that was let go stays in the index, as `released:<limit>`, until a worker claims it: what is on its way counts as
if it were running already, for each of its limits, so that nobody lets go for the same room twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pymongo import ASCENDING, DESCENDING
from pymongo.read_concern import ReadConcern

from workers.store.ordering import BEHIND, PREFIX
from workers.store.run import HoldKind, RunState
from workers.store.run_document import READY, Document, literal
from workers.store.run_store import RunStore

ON_ITS_WAY = "released:"
_ALL_ON_THEIR_WAY = {"$gte": ON_ITS_WAY, "$lt": "released;"}
_INDEX = "by_limit_and_workflow"
_COUNTED_BY = {"app": ("app_id", "running_by_app"), "workflow": ("workflow", "running_by_workflow")}
_URGENT_FIRST = {"priority": DESCENDING, "_id": ASCENDING}
_ORDER = {"app_id": ASCENDING, "workflow": ASCENDING, **_URGENT_FIRST}
_LIST = list(_ORDER.items())
_SHOWN = dict.fromkeys(("app_id", "workflow", "priority", "started_at"), 1)
# Answered by skipping through the index, a seek for each limit (DISTINCT_SCAN): the order is the index's own. `$exists`
# in the place of `$gte` would read every document there is.
EACH_LIMIT: list[Mapping[str, object]] = [
    {"$sort": {"held_by": ASCENDING, **_ORDER}},
    {"$group": {"_id": "$held_by"}},
]
# What waits for its turn in an order is nobody's here, and may be a hundred thousand names.
_BESIDE_ORDERS: tuple[Mapping[str, str], ...] = ({"$gte": "", "$lt": PREFIX}, {"$gte": BEHIND})


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


def is_of_workflow(limit: str) -> bool:
    return limit.startswith("workflow:")


def _whose(limit: str) -> Document:
    """All that a limit holds; of an app's, or its rate's, all have this app."""
    return {"held_by": limit} if is_of_workflow(limit) else {"held_by": limit, "app_id": limit.partition(":")[2]}


def _same(head: Head) -> Document:
    return {"app_id": head.app_id, "workflow": head.workflow}


def each_head(limit: str) -> list[Mapping[str, object]]:
    """A seek for each, too."""
    group = "app_id" if is_of_workflow(limit) else "workflow"
    firsts = {name: {"$first": f"${name}"} for name in ("app_id", "workflow", "priority", "started_at")}
    order = _ORDER if is_of_workflow(limit) else {"workflow": ASCENDING, **_URGENT_FIRST}
    return [
        {"$match": _whose(limit)},
        {"$sort": order},
        {"$group": {"_id": f"${group}", "first": {"$first": "$_id"}, **firsts}},
    ]


def _head(run: Mapping[str, Any], run_id: str) -> Head:
    return Head(run["app_id"], run["workflow"], run_id, run["priority"], run["started_at"] is not None)


class HeldRuns:
    def __init__(self, store: RunStore) -> None:
        # Local: it has our own claim and all before it. A majority that a new primary does not know of yet has not, and
        # two that count just after an election would both find room. What is rolled back is counted for nothing.
        self._runs = store.runs.with_options(read_concern=ReadConcern("local"))
        self._republish_after_ms = int(store.republish_after.total_seconds() * 1000)

    async def limits(self) -> list[str]:
        names: list[str] = []
        for some in _BESIDE_ORDERS:
            found = await self._runs.aggregate([{"$match": {"held_by": some}}, *EACH_LIMIT], hint=_INDEX)
            names += [row["_id"] async for row in found]
        return [name for name in names if not name.startswith(ON_ITS_WAY)]

    async def anybody(self, limit: str) -> bool:
        return await self._runs.find_one({"held_by": limit}, {"_id": 1}, hint=_INDEX) is not None

    async def heads(self, limit: str) -> list[Head]:
        found = await self._runs.aggregate(each_head(limit), hint=_INDEX)
        return [_head(row, row["first"]) async for row in found]

    async def next_app(self, limit: str, *, after: str, up_to: str | None) -> Head | None:
        """Of the first app that waits for this workflow and comes after that one, in order of names."""
        bounds = {"$gt": after} if up_to is None else {"$gt": after, "$lte": up_to}
        found = self._runs.find({"held_by": limit, "app_id": bounds}, _SHOWN, hint=_INDEX)
        return next((_head(run, run["_id"]) for run in await found.sort(_LIST).limit(1).to_list(1)), None)

    async def behind(self, limit: str, head: Head, count: int) -> list[Head]:
        """So many of those that this one stands for, the most urgent first."""
        found = self._runs.find({"held_by": limit, **_same(head)}, _SHOWN, hint=_INDEX).sort(_LIST).limit(count)
        return [_head(run, run["_id"]) async for run in found]

    async def move(self, head: Head, limit: str, *, to: str) -> None:
        """To wait for its other limit, unless one such run does already."""
        if await self._runs.find_one({"held_by": to, **_same(head)}, {"_id": 1}, hint=_INDEX) is None:
            held = {"_id": head.run_id, "held_by": limit, "state": RunState.QUEUED.value}
            await self._runs.update_one(held, {"$set": {"held_by": to, "hold": HoldKind.CONCURRENCY.value}})

    async def taken(self, limit: str, *, up_to: int) -> int:
        """How many run under it or are about to. In this order: a run that starts in between is counted twice, not
        never."""
        on_its_way = await self.on_its_way(limit, up_to=up_to)
        return on_its_way + await self.running(limit, up_to=up_to)

    async def on_its_way(self, limit: str, *, up_to: int) -> int:
        field, name = "workflow" if is_of_workflow(limit) else "app_id", limit.partition(":")[2]
        query = {"held_by": _ALL_ON_THEIR_WAY, field: name}
        return await self._runs.count_documents(query, limit=up_to, hint=_INDEX)

    async def running(self, limit: str, *, up_to: int) -> int:
        kind, _, name = limit.partition(":")
        field, index = _COUNTED_BY[kind]
        query = {field: name, "state": RunState.RUNNING.value}
        return await self._runs.count_documents(query, limit=up_to, hint=index)

    async def let_go(self, limit: str, run_ids: Sequence[str]) -> int:
        """How many of them waited still."""
        held = {"held_by": limit, "state": RunState.QUEUED.value, "_id": {"$in": [*run_ids]}}
        lost_at = {"$add": ["$$NOW", self._republish_after_ms]}
        ready = {**READY, "held_by": literal(ON_ITS_WAY + limit), "wake_at": lost_at, "wakes": 0}
        return (await self._runs.update_many(held, [{"$set": ready}])).modified_count
