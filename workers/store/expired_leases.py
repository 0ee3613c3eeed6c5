"""Expired leases: running runs whose owner has not renewed its lease in time, by the database's clock."""

from collections.abc import AsyncIterator, Collection, Sequence

import pymongo

from workers.store.run import RunState
from workers.store.run_batches import BATCH, RunQuery
from workers.store.run_document import Document
from workers.store.run_store import RunStore
from workers.store.worker_losses import LOSS_FIELDS, WorkerLosses

EXPIRED_LEASE = RunQuery(
    {"state": RunState.RUNNING.value, "$expr": {"$lt": ["$lease.until", "$$NOW"]}},
    sort="lease.until",
    index="by_lease_end",
)


class ExpiredLeases:
    def __init__(self, store: RunStore) -> None:
        self._runs = store.runs
        self._losses = WorkerLosses(store)

    def batches(self, *, put_off: Collection[str], batch_size: int = BATCH) -> AsyncIterator[Sequence[Document]]:
        """`put_off`: ids of runs that are not to be found again in this pass; may grow meanwhile."""
        return EXPIRED_LEASE.batches(self._runs, LOSS_FIELDS, excluded_ids=put_off, batch_size=batch_size)

    async def charge(self, run: Document, *, within_s: float) -> RunState | None:
        """Returns what became of the run as it was read; None when it has changed since. Raises a PyMongoError that is
        a timeout where the run is locked for longer than `within_s`."""
        expired = {"$expr": EXPIRED_LEASE.query["$expr"]}  # again: the owner may have renewed its lease meanwhile
        with pymongo.timeout(within_s):
            return await self._losses.charge(run, extra_query=expired, cause="its lease ran out")
