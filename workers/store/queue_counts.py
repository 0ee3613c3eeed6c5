"""The queue's state for the exporter: waiting, running and resting runs, each counted by an index."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase

from workers.store.run import HoldKind, RunState

Document = dict[str, Any]

HOLDS = tuple(kind.value for kind in HoldKind)
# In a long backlog, one of the first accepted runs has waited longest.
MAX_OLDEST_RUNS = 200

# When a run began to wait for a worker; before, it may have been held, or waited for the previous run of its order.
_READY_SINCE: Document = {"$max": ["$created_at", "$not_before", "$ready_at"]}
# A run has a `lane` while it may be claimed; other queued runs wait for a limit or a time.
_READY: Document = {"lane": {"$gt": ""}}
_QUEUED: Document = {"state": RunState.QUEUED.value}


class AppWorkflow(NamedTuple):
    app: str
    workflow: str


@dataclass(frozen=True, slots=True)
class PersonWait:
    """The number of runs that wait for a person, and the age of the oldest."""

    count: int
    oldest_age_s: float


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """`queued` counts by hold; the empty hold stands for runs that may start, with the age of the oldest."""

    in_progress: int = 0
    parked: int = 0
    queued: Mapping[str, int] = field(default_factory=dict)
    oldest_queued_age_s: float = 0.0
    waiting_for_person: Mapping[AppWorkflow, PersonWait] = field(default_factory=dict)


class QueueReader:
    """Reads the queue in one snapshot; `now` is the store's time."""

    def __init__(
        self,
        database: AsyncDatabase[Document],
        session: AsyncClientSession,
        now: datetime,
        *,
        max_oldest: int = MAX_OLDEST_RUNS,
    ) -> None:
        self._runs = database["runs"]
        self._session = session
        self._now = now
        self._max_oldest = max_oldest

    async def read(self) -> QueueCounts:
        ready, oldest_ready = await self._count_ready()
        due, oldest_due = await self._count_due()
        oldest = min((at for at in (oldest_ready, oldest_due) if at is not None), default=self._now)
        held = {row["_id"]: row["count"] for row in await self._aggregate(held_pipeline())}
        return QueueCounts(
            in_progress=await self._count(running_query()),
            parked=await self._count({"state": RunState.PARKED.value}),
            queued={"": ready + due, **dict.fromkeys(HOLDS, 0), **held},
            oldest_queued_age_s=max((self._now - oldest).total_seconds(), 0.0),
            waiting_for_person=await self._count_waiting_for_person(),
        )

    async def _count_waiting_for_person(self) -> Mapping[AppWorkflow, PersonWait]:
        found = await self._aggregate(waiting_for_person_pipeline())
        return {
            AppWorkflow(row["_id"]["app"], row["_id"]["workflow"]): PersonWait(
                row["count"], max((self._now - (row["since"] or self._now)).total_seconds(), 0.0)
            )
            for row in found
        }

    async def _count_ready(self) -> tuple[int, datetime | None]:
        """Finds the oldest among the first accepted runs, as run ids sort by acceptance.

        If its wait began before the last of them was accepted, no later run is older; otherwise scans all.
        """
        [ready] = await self._aggregate(ready_pipeline(self._max_oldest)) or [{"count": 0, "first": []}]
        if not ready["count"]:
            return 0, None
        first = await self._aggregate(ready_since_pipeline({"_id": {"$in": ready["first"]}}))
        oldest: datetime = min(run["since"] for run in first)
        if ready["count"] > len(first) and oldest > max(run["created_at"] for run in first):
            [all_ready] = await self._aggregate(
                [{"$match": _READY}, {"$group": {"_id": None, "since": {"$min": _READY_SINCE}}}]
            )
            oldest = all_ready["since"]
        return ready["count"], oldest

    async def _count_due(self) -> tuple[int, datetime | None]:
        """Counts runs that are due but not ready yet; the reconciler makes them ready."""
        found = await self._aggregate(due_pipeline(self._now))
        return (found[0]["count"], found[0]["oldest"]) if found else (0, None)

    async def _count(self, query: Document) -> int:
        return sum(row["count"] for row in await self._aggregate([{"$match": query}, {"$count": "count"}]))

    async def _aggregate(self, pipeline: Sequence[Document]) -> list[Document]:
        return await (await self._runs.aggregate(pipeline, session=self._session)).to_list(None)


def ready_pipeline(max_oldest: int = MAX_OLDEST_RUNS) -> list[Document]:
    first = {"$minN": {"n": max_oldest, "input": "$_id"}}  # covered by the index `by_lane`
    return [{"$match": _READY}, {"$group": {"_id": None, "count": {"$sum": 1}, "first": first}}]


def ready_since_pipeline(query: Document) -> list[Document]:
    return [{"$match": query}, {"$project": {"created_at": 1, "since": _READY_SINCE}}]


def due_pipeline(now: datetime) -> list[Document]:
    due = {**_QUEUED, "hold": None, "lane": None, "wake_at": {"$lte": now}}
    return [{"$match": due}, {"$group": {"_id": None, "count": {"$sum": 1}, "oldest": {"$min": _READY_SINCE}}}]


def held_pipeline() -> list[Document]:
    return [
        {"$match": {**_QUEUED, "hold": {"$in": list(HOLDS)}}},
        {"$group": {"_id": "$hold", "count": {"$sum": 1}}},
    ]


def waiting_for_person_pipeline() -> list[Document]:
    """A run waits since its `finished_at`, the end of its turn, which an answer removes."""
    key = {"app": "$app_id", "workflow": "$workflow"}
    waits = {"state": RunState.NEEDS_HUMAN.value, "app_id": {"$gte": ""}}
    return [
        {"$match": waits},
        {"$group": {"_id": key, "count": {"$sum": 1}, "since": {"$min": "$finished_at"}}},
    ]


def running_query() -> Document:
    """Names the end of the lease, since only the index of leases covers running runs."""
    return {"state": RunState.RUNNING.value, "lease.until": {"$type": "date"}}
