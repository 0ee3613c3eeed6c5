"""Batches: the results of a query for runs, a bounded number at a time."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pymongo import ASCENDING
from pymongo.asynchronous.collection import AsyncCollection

from workers.store.run_document import Document

BATCH = 100  # also the number of concurrent writes
MAX_PER_STEP = 20 * BATCH  # keeps each step of a pass short, so that neither a stop nor other steps wait long


@dataclass(frozen=True, slots=True)
class RunQuery:
    """A query for runs with its order and its index.

    The index is named: a planner that chose another one on a busy day would read the whole history once a second.
    """

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
        """Yields batches. Handled runs no longer match, so each query finds the next ones.

        `excluded_ids`: runs that still match and are skipped; may grow meanwhile.
        """
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
