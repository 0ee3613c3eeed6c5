"""Batches of runs that a query finds, a bounded number at a time."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pymongo import ASCENDING
from pymongo.asynchronous.collection import AsyncCollection

from workers.store.run_document import Document

BATCH = 100  # also how many writes are under way at once
MAX_PER_STEP = 20 * BATCH  # one step of a pass stays short, so that neither a stop nor the other steps wait long


@dataclass(frozen=True, slots=True)
class RunQuery:
    """Which runs, in which order, answered by which index. The index is named, since a planner that chose another
    one on a busy day would read the whole history once a second."""

    query: Mapping[str, Any]
    sort: str
    index: str

    async def batches(
        self,
        runs: AsyncCollection[Document],
        fields: Sequence[str],
        *,
        limit: int = MAX_PER_STEP,
        batch_size: int = BATCH,
        excluded_ids: Collection[str] = (),
    ) -> AsyncIterator[Sequence[Document]]:
        """What was dealt with no longer matches, so each look finds the next ones. `put_off`: ids of what still
        matches and is not to be found again; may grow meanwhile."""
        left = limit
        while left > 0:
            size = min(batch_size, left)
            query = {**self.query, "_id": {"$nin": list(excluded_ids)}} if excluded_ids else self.query
            found = runs.find(query, dict.fromkeys(fields, 1), hint=self.index)
            batch = await found.sort(self.sort, ASCENDING).limit(size).to_list(None)
            if batch:
                yield batch
            if len(batch) < size:
                return
            left -= size
