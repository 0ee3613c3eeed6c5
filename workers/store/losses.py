"""Losses: what a run is charged with when its worker dies, and what becomes of it.

1. A worker holds hundreds of runs, and what killed it is not known. So a loss beside others is charged to all of them,
   and parks none.
2. A run that lost `SUSPECT_LOSSES` workers without a turn in between is a suspect: its lane is one that only a process
   of its own serves (`workers.process.alone`).
3. Only a loss there, seen by the worker that had started the process, counts to the `MAX_LOSSES_ALONE` that park it.
4. A suspect whose process and worker die together, as when a machine goes away, is charged with a loss as in 1. It
   waits longer each time, and `MAX_LOSSES` of all kinds park it, or what takes whole machines down would never rest.
"""

import logging
from typing import Any

from accounting.totals.usage_query import run_totals
from workers.store.run import SUSPECT_LOSSES, RunState, labels
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
from workflows.outcome import OutcomeKind

log = logging.getLogger(__name__)

MAX_LOSSES_ALONE = 5
MAX_LOSSES = 20
PAUSE_ALONE_S = 1.0  # before the second time alone; then twice as long each time
PAUSE_UNSEEN_S = 10.0
MAX_PAUSE_S = 300.0
LOSS_FIELDS = ("app_id", "workflow", "worker_losses", "losses_alone", "lease", "cancel_requested", "order.key")
_EVENTS = {
    RunState.QUEUED: "run_reclaimed",
    RunState.PARKED: "run_parked",
    RunState.CANCELLED: "run_cancelled",
}


class WorkerLosses:
    def __init__(self, store: RunStore) -> None:
        self._database = store.database
        self._runs = store.runs
        self._order = store.order

    async def charge(self, run: Document, *, also: Document, why: str, seen_alone: bool = False) -> RunState | None:
        """What became of the run as it was read; None when it has changed since, or does not match `also`."""
        losses, alone = run["worker_losses"] + 1, (run.get("losses_alone") or 0) + seen_alone
        target = target_of(run, losses, alone)
        seen = {
            **also,
            "_id": run["_id"],
            "state": moves(RunState.RUNNING, target),
            "lease.token": run["lease"]["token"],
            "worker_losses": run["worker_losses"],  # a turn that was committed meanwhile makes them none
            # Asked for only now: the next pass knows, and then says what the run used up to its end.
            "cancel_requested": {"$ne": None} if target is RunState.CANCELLED else None,
        }
        change = await self._change(run, target, losses, alone, why=why, seen_alone=seen_alone)
        written = await self._runs.update_one(seen, change)
        if written.matched_count == 0:
            return None
        lease = {"owner": run["lease"]["owner"], "worker_losses": losses, "losses_alone": alone}
        log.warning(_EVENTS[target], extra={**labels(run), "reason": why, **lease})
        if target is not RunState.QUEUED:
            await self._order.leave(run)
        return target

    async def _change(
        self, run: Document, target: RunState, losses: int, alone: int, *, why: str, seen_alone: bool
    ) -> list[Document]:
        taken = {
            **LET_GO,
            **history_of(OutcomeKind.WORKER_LOST.value, f"{why}; {losses_in_words(losses, alone)}"),
            "state": target.value,
            "worker_losses": losses,
            "losses_alone": alone,
        }
        if target is RunState.QUEUED:
            pause_s = pause_before_next(run, losses, alone, seen_alone=seen_alone)
            return [{"$set": taken}, *_queued_again(pause_s)]
        usage = {"usage": literal((await run_totals(self._database, run["_id"])).as_json())}
        if target is RunState.CANCELLED:
            return [{"$set": {**taken, **usage}}, {"$set": ENDED_IF_CANCELLED}]
        outcome = {"kind": OutcomeKind.WORKER_LOST.value, "reason": loss_reason(losses, alone), "error": None}
        return [{"$set": {**taken, **usage, **NOT_READY, **TURN_OVER, "outcome": outcome, "finished_at": "$$NOW"}}]


def losses_in_words(losses: int, alone: int) -> str:
    return f"{losses} worker{'s' if losses != 1 else ''} lost{told_alone(alone)}"


def loss_reason(losses: int, alone: int) -> str:
    return f"its worker was lost {losses} times{told_alone(alone)}"


def told_alone(alone: int) -> str:
    return f", {alone} of them while it ran alone" if alone else ""


def pause_before_next(run: Document, losses: int, alone: int, *, seen_alone: bool) -> float:
    """No pause after a loss beside others: a run that becomes a suspect by it harms none of them the next time."""
    if seen_alone:
        return float(PAUSE_ALONE_S * 2 ** (alone - 1))
    if is_alone(run):
        return float(min(PAUSE_UNSEEN_S * 2 ** max(losses - SUSPECT_LOSSES - alone - 1, 0), MAX_PAUSE_S))
    return 0.0


def is_alone(run: Any) -> bool:
    """Whether its owner is a process that has no other run."""
    return bool(run["lease"].get("alone"))


def _queued_again(pause_s: float) -> list[Document]:
    """Runs that were lost together come back apart."""
    lost = {"wakes": 0, "last_requeue": {"reason": OutcomeKind.WORKER_LOST.value, "at": "$$NOW"}}
    if pause_s == 0:
        return [{"$set": {**lost, **READY, "wake_at": "$$NOW"}}]
    due = {"$add": ["$$NOW", {"$multiply": [pause_s * 1000, {"$add": [0.5, {"$rand": {}}]}]}]}
    return [{"$set": {**lost, "not_before": due}}, {"$set": {"wake_at": "$not_before"}}]  # each $rand is another one


def target_of(run: Document, losses: int, alone: int) -> RunState:
    if run.get("cancel_requested") is not None:
        return RunState.CANCELLED
    return RunState.PARKED if alone >= MAX_LOSSES_ALONE or losses >= MAX_LOSSES else RunState.QUEUED
