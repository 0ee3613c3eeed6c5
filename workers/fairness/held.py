"""Held runs: who waits for which limit, and letting the next one go.

A run that was let go stays in the index of its limit, as `released:<limit>`, until a worker claims it: what is on its
way counts as if it were running, so that nobody releases for the same room twice.
"""

from collections.abc import Iterable, Mapping

from pymongo import ASCENDING, DESCENDING
from pymongo.read_concern import ReadConcern

from workers.store.run import RunState
from workers.store.run_document import READY, Document, literal
from workers.store.run_store import RunStore
from workers.together import together

ON_ITS_WAY = "released:"
_INDEX = "by_limit"
_COUNTED_BY = {"app": ("app_id", "running_by_app"), "workflow": ("workflow", "running_by_workflow")}
NEXT_FIRST = (("app_id", ASCENDING), ("priority", DESCENDING), ("_id", ASCENDING))
# Both are answered by skipping through the index, a seek for each limit or app (DISTINCT_SCAN): the order is the
# index's own. `$exists` in the place of `$gte` would read every document there is.
EACH_LIMIT: list[Mapping[str, object]] = [
    {"$match": {"held_by": {"$gte": ""}}},
    {"$sort": {"held_by": ASCENDING, **dict(NEXT_FIRST)}},
    {"$group": {"_id": "$held_by"}},
]


def each_app(limit: str) -> list[Mapping[str, object]]:
    return [{"$match": {"held_by": limit}}, {"$sort": dict(NEXT_FIRST)}, {"$group": {"_id": "$app_id"}}]


class HeldRuns:
    def __init__(self, store: RunStore) -> None:
        # Local: it has our own claim and all before it. A majority that a new primary does not know of yet has not, and
        # two that count just after an election would both find room. What is rolled back is counted for nothing.
        self._runs = store.runs.with_options(read_concern=ReadConcern("local"))
        self._republish_after_ms = int(store.republish_after.total_seconds() * 1000)

    async def limits(self) -> list[str]:
        found = await self._runs.aggregate(EACH_LIMIT, hint=_INDEX)
        names: list[str] = [row["_id"] async for row in found]
        return [name for name in names if not name.startswith(ON_ITS_WAY)]

    async def first_of(self, limit: str) -> Document | None:
        found = self._runs.find({"held_by": limit}, {"_id": 1, "priority": 1}, hint=_INDEX)
        return next(iter(await found.sort(list(NEXT_FIRST)).limit(1).to_list(1)), None)

    async def taken(self, limit: str, *, up_to: int) -> int:
        """How many run under it or are about to. In this order: a run that starts in between is counted twice, not
        never."""
        on_its_way = await self.on_its_way(limit, up_to=up_to)
        return on_its_way + await self.running(limit, up_to=up_to)

    async def on_its_way(self, limit: str, *, up_to: int) -> int:
        return await self._runs.count_documents({"held_by": ON_ITS_WAY + limit}, limit=up_to, hint=_INDEX)

    async def running(self, limit: str, *, up_to: int) -> int:
        kind, _, name = limit.partition(":")
        field, index = _COUNTED_BY[kind]
        query = {field: name, "state": RunState.RUNNING.value}
        return await self._runs.count_documents(query, limit=up_to, hint=index)

    async def release_next(self, limit: str, *, after: str) -> str | None:
        """Of the app that comes after this one, in order of names and round and round, what is most urgent."""
        for apps in ({"app_id": {"$gt": after}}, {}):
            released = await self._runs.find_one_and_update(
                {**_held(limit), **apps},
                [{"$set": self._released(limit)}],
                projection={"_id": 1},
                sort=NEXT_FIRST,
                hint=_INDEX,
            )
            if released is not None:
                return str(released["_id"])
        return None

    async def release(self, limit: str, *, most: int, after: str) -> tuple[list[str], str]:
        """So many at once, evenly over the apps that wait; and whose turn was last."""
        waiting = await self._runs.aggregate(each_app(limit), hint=_INDEX)
        shares = shares_of([row["_id"] async for row in waiting], most, after=after)
        found = await together(self._next_of(limit, app_id, share) for app_id, share in shares.items())
        run_ids = [run_id for ids in found for run_id in ids]
        if not run_ids:
            return [], after
        await self._runs.update_many({**_held(limit), "_id": {"$in": run_ids}}, [{"$set": self._released(limit)}])
        return run_ids, list(shares)[(most - 1) % len(shares)]

    async def _next_of(self, limit: str, app_id: str, count: int) -> list[str]:
        query = {"held_by": limit, "app_id": app_id}
        found = self._runs.find(query, {"_id": 1}, hint=_INDEX).sort(list(NEXT_FIRST)).limit(count)
        return [run["_id"] async for run in found]

    def _released(self, limit: str) -> Document:
        lost_at = {"$add": ["$$NOW", self._republish_after_ms]}
        return {**READY, "held_by": literal(ON_ITS_WAY + limit), "wake_at": lost_at, "wakes": 0}


def _held(limit: str) -> Document:
    return {"held_by": limit, "state": RunState.QUEUED.value}


def shares_of(apps: Iterable[str], most: int, *, after: str) -> dict[str, int]:
    """`most` runs dealt out one by one to apps in order of names, beginning with the one after `after`."""
    dealt = round_from(apps, after)[:most]
    each, more = divmod(most, len(dealt)) if dealt else (0, 0)
    return {app: each + (place < more) for place, app in enumerate(dealt)}


def round_from(names: Iterable[str], after: str) -> list[str]:
    """In order and round: those after that one first."""
    return sorted(names, key=lambda name: (name <= after, name))
