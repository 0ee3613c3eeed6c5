"""A selection: the runs that a filter matched at one moment, oldest first, in bounded batches."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pymongo import ASCENDING

from workers.store.run_document import Document
from workers.store.run_filter import RunFilter
from workers.store.run_store import RunStore

BATCH = 100
_SHOWN = ("app_id", "workflow", "trigger.name", "state", "outcome.kind", "created_at")


@dataclass(frozen=True, slots=True)
class Selection:
    """The runs that a filter matched at one moment. `limit`: only the oldest of them."""

    run_filter: RunFilter
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
        query = self.run_filter.query()
        created = {"$lt": self.began_at, **query.get("created_at", {})}
        created["$lt"] = min(created["$lt"], self.began_at)
        if after is None:
            return {**query, "created_at": created}
        since = {**created, "$gte": after["created_at"]}
        later = [{"created_at": {"$gt": after["created_at"]}}, {"_id": {"$gt": after["_id"]}}]
        return {**query, "created_at": since, "$and": [{"$or": later}]}
