"""Many at once: one change to each run that a filter names, in bounded batches, oldest first.

The selection ends at the moment the command began, so it never meets the runs that it makes. A batch is found by the
place where the last one ended, not by what still matches: what is refused does not come up again. Interrupted, the
command may be repeated: what was changed no longer matches, or says that it was changed already.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pymongo import ASCENDING

from accounting.infra.aio import gather_all
from workers.control.changed import Changed
from workers.control.effects import WouldRepeatError
from workers.control.errors import RefusedError, RunNotFoundError
from workers.store.matching import Matching
from workers.store.run_document import Document
from workers.store.run_store import RunStore

BATCH = 100
SIDE_BY_SIDE = 20
MAX_REASONS = 100
_SHOWN = ("app_id", "workflow", "trigger.name", "state", "outcome.kind", "created_at")


@dataclass(frozen=True, slots=True)
class Skipped:
    """A replay that was not made: what it would do again."""

    run_id: str
    done: tuple[str, ...]


Result = Changed | Skipped | tuple[str, str]


@dataclass(slots=True)
class Tally:
    """How far it is: `already` are those that nothing was left to do for, `reasons` the first of the refusals.
    `skipped` are replays that would do again what has succeeded, `done` says of the first of them what that is."""

    changed: int = 0
    already: int = 0
    refused: int = 0
    skipped: int = 0
    reasons: list[dict[str, str]] = field(default_factory=list)
    done: list[dict[str, Any]] = field(default_factory=list)

    @property
    def seen(self) -> int:
        return self.changed + self.already + self.refused + self.skipped

    def add(self, result: Result) -> None:
        if isinstance(result, Changed):
            self.changed += result.changed
            self.already += not result.changed
        elif isinstance(result, Skipped):
            self.skipped += 1
            if len(self.done) < MAX_REASONS:
                self.done.append({"run_id": result.run_id, "done": list(result.done)})
        else:
            self.refused += 1
            if len(self.reasons) < MAX_REASONS:
                self.reasons.append({"run_id": result[0], "reason": result[1]})

    def as_json(self) -> dict[str, Any]:
        names = ("changed", "already", "refused", "reasons", "skipped")
        return {**{name: getattr(self, name) for name in names}, "skipped_runs": self.done}


@dataclass(frozen=True, slots=True)
class Selection:
    """The runs a filter named at one moment. `limit`: the oldest of them, so many at most."""

    matching: Matching
    limit: int | None = None
    began_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    async def count(self, store: RunStore) -> int:
        number = await store.runs.count_documents(self._query())
        return number if self.limit is None else min(number, self.limit)

    async def first(self, store: RunStore, number: int) -> list[Document]:
        return await self._find(store, self._query(), number)

    async def batches(self, store: RunStore) -> AsyncIterator[list[Document]]:
        query, left = self._query(), self.limit
        while left is None or left > 0:
            batch = await self._find(store, query, BATCH if left is None else min(BATCH, left))
            if batch:
                yield batch
            if len(batch) < BATCH:
                return
            left = None if left is None else left - len(batch)
            query = self._query(after=batch[-1])

    @staticmethod
    async def _find(store: RunStore, query: Document, number: int) -> list[Document]:
        oldest_first = [("created_at", ASCENDING), ("_id", ASCENDING)]
        found = store.runs.find(query, dict.fromkeys(_SHOWN, 1)).sort(oldest_first).limit(number)
        return await found.to_list(None)

    def _query(self, *, after: Document | None = None) -> Document:
        query = self.matching.query()
        created = {"$lt": self.began_at, **query.get("created_at", {})}
        created["$lt"] = min(created["$lt"], self.began_at)
        if after is None:
            return {**query, "created_at": created}
        since = {**created, "$gte": after["created_at"]}
        later = [{"created_at": {"$gt": after["created_at"]}}, {"_id": {"$gt": after["_id"]}}]
        return {**query, "created_at": since, "$and": [{"$or": later}]}


async def to_each(
    store: RunStore,
    selection: Selection,
    change: Callable[[str], Awaitable[Changed]],
    *,
    progress: Callable[[Tally], None],
) -> Tally:
    tally = Tally()
    async for batch in selection.batches(store):
        for start in range(0, len(batch), SIDE_BY_SIDE):
            some = batch[start : start + SIDE_BY_SIDE]
            for result in await gather_all(_tried(change, run["_id"]) for run in some):
                tally.add(result)
            progress(tally)
    return tally


async def _tried(change: Callable[[str], Awaitable[Changed]], run_id: str) -> Result:
    try:
        return await change(run_id)
    except WouldRepeatError as error:
        return Skipped(run_id, tuple(error.effects.sentences()))
    except (RefusedError, RunNotFoundError) as error:
        return run_id, str(error)
