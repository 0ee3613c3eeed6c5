"""The reconciler: puts runs back on their way whose worker died or whose wake-up got lost.

1. `_reclaim`: a running run whose lease ran out is queued again and will resume after its last completed
   turn. A run that took its worker down five times is parked instead: the sixth would follow.
2. `_republish`: a queued run whose wake-up is due gets another one.

Any number of reconcilers may run: each change is conditional on what was read (the fencing token, the due
time), so that one of them makes it and the others find nothing. Times are the database's clock ($$NOW).
"""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pymongo import ASCENDING

from accounting.totals import run_totals
from workers.run import RunState
from workers.run_document import ENDED_IF_CANCELLED, LET_GO, READY, Document, history_of
from workers.run_store import RunStore
from workers.together import together
from workers.transitions import sources_of
from workflows.outcome import OutcomeKind

log = logging.getLogger(__name__)

MAX_WORKER_LOSSES = 5
MAX_DOUBLINGS = 6
BATCH = 100  # also how many writes are under way at once
MAX_BATCHES = 20  # one pass stays short, so that a stop or the other question never waits long


class Wake(Protocol):
    def send(self, run_id: str) -> None:
        """Tell the workers about a queued run; best effort."""


@dataclass(frozen=True, slots=True)
class Reconciled:
    reclaimed: int = 0
    parked: int = 0
    republished: int = 0


class Reconciler:
    def __init__(self, store: RunStore, wakeups: Wake, republish_after_s: int) -> None:
        self._database = store.database
        self._runs = store.runs
        self._wakeups = wakeups
        self._republish_after_s = republish_after_s

    async def run_pass(self) -> Reconciled:
        results: list[RunState | None] = []
        async for batch in self._batches(EXPIRED_LEASE, sort="lease.until"):
            results += await together(self._reclaim(run) for run in batch)
        republished = 0
        async for batch in self._batches(DUE_WAKE_UP, sort="wake_at"):
            republished += sum(await together(self._republish(run) for run in batch))
        return Reconciled(results.count(RunState.QUEUED), results.count(RunState.PARKED), republished)

    async def _batches(self, query: Mapping[str, Any], *, sort: str) -> AsyncIterator[Sequence[Document]]:
        """What was dealt with no longer matches, so each look finds the next ones."""
        for _ in range(MAX_BATCHES):
            batch = await self._runs.find(query, _PROJECTION).sort(sort, ASCENDING).to_list(BATCH)
            if batch:
                yield batch
            if len(batch) < BATCH:
                return

    async def _reclaim(self, run: Document) -> RunState | None:
        losses = run["worker_losses"] + 1
        target = RunState.PARKED if losses >= MAX_WORKER_LOSSES else RunState.QUEUED
        seen = {
            **EXPIRED_LEASE,  # again, since the owner may have renewed its lease meanwhile
            "_id": run["_id"],
            "state": {"$eq": RunState.RUNNING.value, "$in": sources_of(target)},
            "lease.token": run["lease"]["token"],
        }
        change = await self._parked(run, losses) if target is RunState.PARKED else _QUEUED_AGAIN
        taken = {
            **LET_GO,
            **history_of(OutcomeKind.WORKER_LOST.value, f"its lease ran out; {losses} workers lost"),
            "state": target.value,
            "worker_losses": losses,
        }
        written = await self._runs.update_one(seen, [{"$set": {**taken, **change}}, {"$set": ENDED_IF_CANCELLED}])
        if written.matched_count == 0:
            return None
        log.warning(
            "run_parked" if target is RunState.PARKED else "run_reclaimed",
            extra={**_names(run), "reason": "lease expired", "owner": run["lease"]["owner"], "worker_losses": losses},
        )
        return target

    async def _parked(self, run: Document, losses: int) -> Document:
        usage = (await run_totals(self._database, run["_id"])).as_json()
        outcome = {
            "kind": OutcomeKind.WORKER_LOST.value,
            "reason": f"its worker was lost {losses} times",
            "error": None,
        }
        return {"outcome": outcome, "usage": usage, "finished_at": "$$NOW"}

    async def _republish(self, run: Document) -> bool:
        # Acceptance sends the first wake-up itself, so what is due here lost its message, waited for a retry,
        # or stands in a backlog. In a backlog each repeat is one more message for the same run: doubling the
        # interval keeps them few, however long it lasts.
        pause_s = self._republish_after_s * 2 ** min(run["wakes"], MAX_DOUBLINGS)
        seen = {**DUE_WAKE_UP, "_id": run["_id"], "wake_at": run["wake_at"]}
        change = {**READY, "wake_at": {"$add": ["$$NOW", pause_s * 1000]}, "wakes": {"$add": ["$wakes", 1]}}
        written = await self._runs.update_one(seen, [{"$set": change}])
        if written.matched_count == 0:
            return False
        self._wakeups.send(run["_id"])
        waited = run.get("not_before") is not None and run["wakes"] == 0
        reason = "its time has come" if waited else "not claimed in time"
        log.info("run_republished", extra={**_names(run), "reason": reason, "wakes": run["wakes"] + 1})
        return True


_PROJECTION = dict.fromkeys(("app_id", "workflow", "worker_losses", "lease", "wake_at", "wakes", "not_before"), 1)
EXPIRED_LEASE: Document = {"state": RunState.RUNNING.value, "$expr": {"$lt": ["$lease.until", "$$NOW"]}}
DUE_WAKE_UP: Document = {
    "state": RunState.QUEUED.value,
    "hold": None,
    # null sorts before every date: a run without `not_before` is always due
    "$expr": {"$and": [{"$lte": ["$wake_at", "$$NOW"]}, {"$lte": ["$not_before", "$$NOW"]}]},
}
_QUEUED_AGAIN: Document = {
    **READY,
    "wake_at": "$$NOW",
    "wakes": 0,
    "last_requeue": {"reason": OutcomeKind.WORKER_LOST.value, "at": "$$NOW"},
}


def _names(run: Document) -> dict[str, Any]:
    return {"run_id": run["_id"], "app_id": run["app_id"], "workflow": run["workflow"]}
