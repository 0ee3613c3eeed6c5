"""Retention: deletes runs that ended before the retention time. Counts stay.

1. A pass selects some of the runs that ended longest ago, with their turns: as many as fit well in one transaction.
2. That transaction deletes them and adds them to the roll-ups: counts by app, workflow, trigger type and outcome, with
   stranded runs apart. So the sum over runs and roll-ups is the same at every moment.
3. Two reconcilers that prune at once meet in the same runs. The second one stops until the next pass.

Parked runs and runs that wait for a person stay, however old; so does the ledger.
"""

import logging
from collections import Counter
from datetime import timedelta

from pymongo.errors import OperationFailure

from workers.store.run_pruner import BATCH, MAX_TURNS, RunPruner
from workers.store.run_store import RunStore

log = logging.getLogger(__name__)

PRUNED = "pruned"
MAX_BATCHES = 3  # a pass is short; this many a second are more than fifty million a day


class RunRetention:
    def __init__(
        self,
        store: RunStore,
        keep: timedelta,
        *,
        max_batches: int = MAX_BATCHES,
        batch_size: int = BATCH,
        max_turns: int = MAX_TURNS,
    ) -> None:
        """The limits are those of a pass and of a transaction."""
        self._pruning = RunPruner(store, keep, batch_size=batch_size, max_turns=max_turns)
        self._max_batches = max_batches

    async def run_pass(self, counts: Counter[str]) -> None:
        for _ in range(self._max_batches):
            if not await self._pruning.has_expired():
                return
            pruned = await self.prune_batch()
            counts[PRUNED] += pruned
            if pruned == 0:
                return

    async def prune_batch(self) -> int:
        """Prunes one batch.

        A process that loses the race for it finds other runs in the next pass.
        """
        try:
            pruned = await self._pruning.prune()
        except OperationFailure as error:
            if not error.has_error_label("TransientTransactionError"):  # as in a conflict with another deletion
                raise
            log.debug("pruning_postponed", extra={"code": error.code})
            return 0
        if pruned.runs:
            log.info("runs_pruned", extra={"runs": pruned.runs, "turns": pruned.turns, "reason": "kept long enough"})
        return pruned.runs
