"""The queue, as operators look at it: what waits, what is worked on, what rests. Each number comes out of an index."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase

from workers.store.run import HoldKind, RunState

Document = dict[str, Any]

HOLDS = tuple(kind.value for kind in HoldKind)
# Of a long backlog, only those that were accepted first may have waited longest.
OLDEST = 200

# Since when a run waits for a worker: it may have been held for hours before, or have waited for the run before it.
_SINCE: Document = {"$max": ["$created_at", "$not_before", "$ready_at"]}
# `lane` is there while a run may be claimed. The other queued runs wait for a limit or a time.
_READY: Document = {"lane": {"$gt": ""}}
_QUEUED: Document = {"state": RunState.QUEUED.value}


class AppWorkflow(NamedTuple):
    app: str
    workflow: str


@dataclass(frozen=True, slots=True)
class PersonWait:
    """Runs that wait for a person, and for how long the first of them has waited."""

    count: int
    oldest_age_s: float


@dataclass(frozen=True, slots=True)
class Queue:
    """`queued` by hold; the empty name is the queue proper, and the age is that of its oldest."""

    in_progress: int = 0
    parked: int = 0
    queued: Mapping[str, int] = field(default_factory=dict)
    oldest_queued_age_s: float = 0.0
    for_person: Mapping[AppWorkflow, PersonWait] = field(default_factory=dict)


class QueueLook:
    """In one snapshot. `now`: the store's time."""

    def __init__(self, database: AsyncDatabase[Document], session: AsyncClientSession, now: datetime) -> None:
        self._runs = database["runs"]
        self._session = session
        self._now = now

    async def look(self) -> Queue:
        ready, oldest_ready = await self._ready()
        due, oldest_due = await self._due()
        oldest = min((at for at in (oldest_ready, oldest_due) if at is not None), default=self._now)
        held = {row["_id"]: row["count"] for row in await self._found(held_pipeline())}
        return Queue(
            in_progress=await self._count(running_query()),
            parked=await self._count({"state": RunState.PARKED.value}),
            queued={"": ready + due, **dict.fromkeys(HOLDS, 0), **held},
            oldest_queued_age_s=max((self._now - oldest).total_seconds(), 0.0),
            for_person=await self._for_person(),
        )

    async def _for_person(self) -> Mapping[AppWorkflow, PersonWait]:
        found = await self._found(person_pipeline())
        return {
            AppWorkflow(row["_id"]["app"], row["_id"]["workflow"]): PersonWait(
                row["count"], max((self._now - (row["since"] or self._now)).total_seconds(), 0.0)
            )
            for row in found
        }

    async def _ready(self) -> tuple[int, datetime | None]:
        """Run ids sort by acceptance. If one has waited since before the last of them was accepted, none is older."""
        [found] = await self._found(ready_pipeline()) or [{"count": 0, "first": []}]
        if not found["count"]:
            return 0, None
        first = await self._found(since_pipeline({"_id": {"$in": found["first"]}}))
        oldest: datetime = min(run["since"] for run in first)
        if found["count"] > len(first) and oldest > max(run["created_at"] for run in first):
            [all_of_them] = await self._found(
                [{"$match": _READY}, {"$group": {"_id": None, "since": {"$min": _SINCE}}}]
            )
            oldest = all_of_them["since"]
        return found["count"], oldest

    async def _due(self) -> tuple[int, datetime | None]:
        """What should be ready by now: the reconciler makes it so."""
        found = await self._found(due_pipeline(self._now))
        return (found[0]["count"], found[0]["oldest"]) if found else (0, None)

    async def _count(self, query: Document) -> int:
        return sum(row["count"] for row in await self._found([{"$match": query}, {"$count": "count"}]))

    async def _found(self, pipeline: Sequence[Document]) -> list[Document]:
        return await (await self._runs.aggregate(pipeline, session=self._session)).to_list(None)


def ready_pipeline() -> list[Document]:
    first = {"$minN": {"n": OLDEST, "input": "$_id"}}  # of all that `by_lane` knows, without reading a run
    return [{"$match": _READY}, {"$group": {"_id": None, "count": {"$sum": 1}, "first": first}}]


def since_pipeline(query: Document) -> list[Document]:
    return [{"$match": query}, {"$project": {"created_at": 1, "since": _SINCE}}]


def due_pipeline(now: datetime) -> list[Document]:
    due = {**_QUEUED, "hold": None, "lane": None, "wake_at": {"$lte": now}}
    return [{"$match": due}, {"$group": {"_id": None, "count": {"$sum": 1}, "oldest": {"$min": _SINCE}}}]


def held_pipeline() -> list[Document]:
    return [
        {"$match": {**_QUEUED, "hold": {"$in": list(HOLDS)}}},
        {"$group": {"_id": "$hold", "count": {"$sum": 1}}},
    ]


def person_pipeline() -> list[Document]:
    """A run begins to wait when its turn ends: its `finished_at`, which an answer takes away."""
    key = {"app": "$app_id", "workflow": "$workflow"}
    waits = {"state": RunState.NEEDS_HUMAN.value, "app_id": {"$gte": ""}}
    return [
        {"$match": waits},
        {"$group": {"_id": key, "count": {"$sum": 1}, "since": {"$min": "$finished_at"}}},
    ]


def running_query() -> Document:
    """With the lease's end, since the index of leases is the one of running runs alone."""
    return {"state": RunState.RUNNING.value, "lease.until": {"$type": "date"}}
