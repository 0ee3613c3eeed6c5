"""Reclaim: takes running runs with expired leases from their lost workers.

A reclaimed run is queued again and resumes after its last committed turn. `workers.store.worker_losses` decides what it
is charged with, and when it is parked instead. A run with a cancellation request ends here. `republish`, later in the
same pass, sends the wake-ups.

The end of the lease, the token and the state are part of the write, so it matches nothing after a renewal, an end or
another reconciler's write.
"""

import logging
from collections import Counter

from pymongo.errors import PyMongoError

from accounting.infra.aio import gather_all
from workers.store.run import RunState, run_labels
from workers.store.run_batches import BATCH
from workers.store.run_document import Document
from workers.store.run_store import RunStore
from workers.store.worker_losses import ExpiredLeases

log = logging.getLogger(__name__)

LOCKED_AFTER_S = 2.0
RESULTS = (RunState.QUEUED.value, RunState.PARKED.value, RunState.CANCELLED.value)


class Reclaim:
    def __init__(self, store: RunStore, *, locked_after_s: float = LOCKED_AFTER_S, batch_size: int = BATCH) -> None:
        self._expired = ExpiredLeases(store)
        self._locked_after_s = locked_after_s
        self._batch_size = batch_size

    async def run_pass(self, counts: Counter[str]) -> None:
        # A run that was skipped may match again in the next batch, and a locked one would cost the timeout each time.
        put_off: list[str] = []
        async for batch in self._expired.batches(put_off=put_off, batch_size=self._batch_size):
            results = await gather_all(self.reclaim(run) for run in batch)
            put_off += [run["_id"] for run, result in zip(batch, results, strict=True) if result is None]
            counts.update(result.value for result in results if result is not None)

    async def reclaim(self, run: Document) -> RunState | None:
        """Returns the new state of the run; None if it has changed since it was read."""
        try:
            return await self._expired.charge(run, within_s=self._locked_after_s)
        except PyMongoError as error:
            if not error.timeout:
                raise
            # Its worker was killed in a transaction, which the server ends after 60 s by default.
            log.warning("reclaim_put_off", extra={**run_labels(run), "error": type(error).__name__})
            return None
