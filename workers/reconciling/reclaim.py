"""Reclaiming: a running run whose lease ran out is taken from its lost worker.

It is queued again and resumes after its last completed turn. What it is charged with, and when it is parked instead,
`workers.store.losses` decides. One that somebody has asked to cancel ends here.

The lease end, the token and the state are part of the write, so that a renewal, an end or another reconciler that
came first leaves nothing to do.
"""

import logging
from collections import Counter

import pymongo
from pymongo.errors import PyMongoError

from accounting.infra.aio import gather_all
from workers.reconciling.batches import Question
from workers.store.losses import LOSS_FIELDS, WorkerLosses
from workers.store.run import RunState, labels
from workers.store.run_document import Document
from workers.store.run_store import RunStore

log = logging.getLogger(__name__)

LOCKED_AFTER_S = 2.0
RESULTS = (RunState.QUEUED.value, RunState.PARKED.value, RunState.CANCELLED.value)

EXPIRED_LEASE = Question(
    {"state": RunState.RUNNING.value, "$expr": {"$lt": ["$lease.until", "$$NOW"]}},
    sort="lease.until",
    index="by_lease_end",
)


class Reclaim:
    def __init__(self, store: RunStore) -> None:
        self._runs = store.runs
        self._losses = WorkerLosses(store)

    async def run_pass(self, counts: Counter[str]) -> None:
        # What was left alone may match again at the next look, and a locked run would be waited for each time.
        put_off: list[str] = []
        async for batch in EXPIRED_LEASE.batches(self._runs, LOSS_FIELDS, put_off=put_off):
            results = await gather_all(self.reclaim(run) for run in batch)
            put_off += [run["_id"] for run, result in zip(batch, results, strict=True) if result is None]
            counts.update(result.value for result in results if result is not None)

    async def reclaim(self, run: Document) -> RunState | None:
        """What became of the run as it was read; None when it has changed since."""
        expired = {"$expr": EXPIRED_LEASE.query["$expr"]}  # again: the owner may have renewed its lease meanwhile
        try:
            with pymongo.timeout(LOCKED_AFTER_S):
                return await self._losses.charge(run, also=expired, why="its lease ran out")
        except PyMongoError as error:
            if not error.timeout:
                raise
            # Its worker was killed in a transaction, which the server ends after 60 s by default. Others do not wait.
            log.warning("reclaim_put_off", extra={**labels(run), "error": type(error).__name__})
            return None
