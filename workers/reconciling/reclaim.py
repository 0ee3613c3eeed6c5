"""Reclaiming: a running run whose lease ran out is taken from its lost worker.

It is queued again and resumes after its last completed turn. One that lost five workers without completing a turn in
between is parked instead: the sixth would follow. One that somebody has asked to cancel ends here.

The lease end, the token and the state are part of the write, so that a renewal, an end or another reconciler that
came first leaves nothing to do.
"""

import logging
from collections import Counter

import pymongo
from pymongo.errors import PyMongoError

from accounting.totals.reading import run_totals
from workers.reconciling.batches import Question
from workers.store.run import RunState, labels
from workers.store.run_document import (
    ENDED_IF_CANCELLED,
    LET_GO,
    NOT_READY,
    READY,
    TURN_OVER,
    Document,
    history_of,
    literal,
)
from workers.store.run_store import RunStore
from workers.store.transitions import moves
from workers.together import together
from workflows.outcome import OutcomeKind

log = logging.getLogger(__name__)

MAX_WORKER_LOSSES = 5
# In a row, without a turn in between: a run that gets on is not what kills its workers.
SUSPICIOUS_LOSSES = 3
SUSPECT_PAUSE_S = 10.0
LOCKED_AFTER_S = 2.0
RESULTS = (RunState.QUEUED.value, RunState.PARKED.value, RunState.CANCELLED.value)

EXPIRED_LEASE = Question(
    {"state": RunState.RUNNING.value, "$expr": {"$lt": ["$lease.until", "$$NOW"]}},
    sort="lease.until",
    index="by_lease_end",
)
_FIELDS = ("app_id", "workflow", "worker_losses", "lease", "cancel_requested", "order.key")
_EVENTS = {
    RunState.QUEUED: "run_reclaimed",
    RunState.PARKED: "run_parked",
    RunState.CANCELLED: "run_cancelled",
}


class Reclaim:
    def __init__(self, store: RunStore) -> None:
        self._database = store.database
        self._runs = store.runs
        self._order = store.order

    async def run_pass(self, counts: Counter[str]) -> None:
        # What was left alone may match again at the next look, and a locked run would be waited for each time.
        put_off: list[str] = []
        async for batch in EXPIRED_LEASE.batches(self._runs, _FIELDS, put_off=put_off):
            results = await together(self.reclaim(run) for run in batch)
            put_off += [run["_id"] for run, result in zip(batch, results, strict=True) if result is None]
            counts.update(result.value for result in results if result is not None)

    async def reclaim(self, run: Document) -> RunState | None:
        """What became of the run as it was read; None when it has changed since."""
        losses = run["worker_losses"] + 1
        target = _target(run, losses)
        seen = {
            **EXPIRED_LEASE.query,  # again, since the owner may have renewed its lease meanwhile
            "_id": run["_id"],
            "state": moves(RunState.RUNNING, target),
            "lease.token": run["lease"]["token"],
            "worker_losses": run["worker_losses"],  # a turn that was committed meanwhile makes them none
            # Asked for only now: the next pass knows, and then says what the run used up to its end.
            "cancel_requested": {"$ne": None} if target is RunState.CANCELLED else None,
        }
        change = await self._change(run, target, losses)
        try:
            with pymongo.timeout(LOCKED_AFTER_S):
                written = await self._runs.update_one(seen, change)
        except PyMongoError as error:
            if not error.timeout:
                raise
            # Its worker was killed in a transaction, which the server ends after 60 s by default. Others do not wait.
            log.warning("reclaim_put_off", extra={**labels(run), "error": type(error).__name__})
            return None
        if written.matched_count == 0:
            return None
        lease = {"owner": run["lease"]["owner"], "worker_losses": losses}
        log.warning(_EVENTS[target], extra={**labels(run), "reason": "lease expired", **lease})
        if target is not RunState.QUEUED:
            await self._order.leave(run)
        return target

    async def _change(self, run: Document, target: RunState, losses: int) -> list[Document]:
        taken = {
            **LET_GO,
            **history_of(OutcomeKind.WORKER_LOST.value, f"its lease ran out; {losses} workers lost"),
            "state": target.value,
            "worker_losses": losses,
        }
        if target is RunState.QUEUED:
            return [{"$set": taken}, *_queued_again(losses)]
        usage = {"usage": literal((await run_totals(self._database, run["_id"])).as_json())}
        if target is RunState.CANCELLED:
            return [{"$set": {**taken, **usage}}, {"$set": ENDED_IF_CANCELLED}]
        outcome = {
            "kind": OutcomeKind.WORKER_LOST.value,
            "reason": f"its worker was lost {losses} times",
            "error": None,
        }
        return [{"$set": {**taken, **usage, **NOT_READY, **TURN_OVER, "outcome": outcome, "finished_at": "$$NOW"}}]


def _queued_again(losses: int) -> list[Document]:
    """At once, unless it may be what kills its workers: then those that were beside it get on first, and runs that
    were lost together come back apart."""
    lost = {"wakes": 0, "last_requeue": {"reason": OutcomeKind.WORKER_LOST.value, "at": "$$NOW"}}
    if losses < SUSPICIOUS_LOSSES:
        return [{"$set": {**lost, **READY, "wake_at": "$$NOW"}}]
    pause_ms = SUSPECT_PAUSE_S * 2 ** (losses - SUSPICIOUS_LOSSES) * 1000
    due = {"$add": ["$$NOW", {"$multiply": [pause_ms, {"$add": [0.5, {"$rand": {}}]}]}]}
    return [{"$set": {**lost, "not_before": due}}, {"$set": {"wake_at": "$not_before"}}]  # each $rand is another one


def _target(run: Document, losses: int) -> RunState:
    if run.get("cancel_requested") is not None:
        return RunState.CANCELLED
    return RunState.PARKED if losses >= MAX_WORKER_LOSSES else RunState.QUEUED
