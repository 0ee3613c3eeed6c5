"""Worker losses: the charge to a run whose worker died, and its next state.

1. A worker has hundreds of runs, and the one that killed it is not known. So a shared loss is charged to all of them,
   and parks none.
2. A run that lost `SUSPECT_LOSSES` workers without a turn in between is a suspect: it waits in a lane that only
   isolated processes serve (`workers.process.isolated_processes`).
3. Only a loss there, seen by the worker that started the process, counts towards the `MAX_ISOLATED_LOSSES` that park
   it.
4. A suspect whose process and worker die together, as when a machine fails, is charged with a shared loss. Its pause
   grows each time, and `MAX_LOSSES` of all kinds park it; otherwise a run that kills machines would never stop.

A lease is expired when its owner has not renewed it in time, by the database's clock.
"""

import logging
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any

import pymongo

from accounting.totals.usage_query import run_totals
from workers.store.run import SUSPECT_LOSSES, RunState, run_labels
from workers.store.run_batches import BATCH, RunQuery
from workers.store.run_document import (
    CLEAR_LEASE,
    CLEAR_ORDER_HEAD,
    ENDED_IF_CANCELLED,
    NOT_READY,
    READY,
    Document,
    append_history,
    literal,
)
from workers.store.run_store import RunStore
from workers.store.run_transitions import transition_filter
from workflows.outcome import OutcomeKind

log = logging.getLogger(__name__)

MAX_ISOLATED_LOSSES = 5
MAX_LOSSES = 20
ISOLATED_PAUSE_S = 1.0  # before the second isolated run; doubles each time
UNSEEN_PAUSE_S = 10.0
MAX_PAUSE_S = 300.0
LOSS_FIELDS = ("app_id", "workflow", "worker_losses", "losses_alone", "lease", "cancel_requested", "order.key")
_EVENTS = {
    RunState.QUEUED: "run_reclaimed",
    RunState.PARKED: "run_parked",
    RunState.CANCELLED: "run_cancelled",
}

EXPIRED_LEASE = RunQuery(
    {"state": RunState.RUNNING.value, "$expr": {"$lt": ["$lease.until", "$$NOW"]}},
    sort="lease.until",
    index="by_lease_end",
)


class WorkerLosses:
    def __init__(self, store: RunStore) -> None:
        self._database = store.database
        self._runs = store.runs
        self._order = store.order

    async def charge(
        self, run: Document, *, extra_query: Document, cause: str, seen_isolated: bool = False
    ) -> RunState | None:
        """Charges the loss; returns the new state of the run.

        Returns None if the run has changed since it was read, or does not match `extra_query`.
        """
        losses, alone = run["worker_losses"] + 1, (run.get("losses_alone") or 0) + seen_isolated
        target = target_of(run, losses, alone)
        change = await self._change(run, target, losses, alone, cause=cause, seen_isolated=seen_isolated)
        written = await self._runs.update_one({**extra_query, **unchanged_query(run, target)}, change)
        if written.matched_count == 0:
            return None
        lease = {"owner": run["lease"]["owner"], "worker_losses": losses, "losses_alone": alone}
        log.warning(_EVENTS[target], extra={**run_labels(run), "reason": cause, **lease})
        if target is not RunState.QUEUED:
            await self._order.release_after(run)
        return target

    async def _change(
        self, run: Document, target: RunState, losses: int, alone: int, *, cause: str, seen_isolated: bool
    ) -> list[Document]:
        taken = {
            **CLEAR_LEASE,
            **append_history(OutcomeKind.WORKER_LOST.value, f"{cause}; {describe_losses(losses, alone)}"),
            "state": target.value,
            "worker_losses": losses,
            "losses_alone": alone,
        }
        if target is RunState.QUEUED:
            pause_s = pause_before_next(run, losses, alone, seen_isolated=seen_isolated)
            return [{"$set": taken}, *_requeue_stages(pause_s)]
        usage = {"usage": literal((await run_totals(self._database, run["_id"])).as_json())}
        if target is RunState.CANCELLED:
            return [{"$set": {**taken, **usage}}, {"$set": ENDED_IF_CANCELLED}]
        outcome = {"kind": OutcomeKind.WORKER_LOST.value, "reason": loss_reason(losses, alone), "error": None}
        return [
            {"$set": {**taken, **usage, **NOT_READY, **CLEAR_ORDER_HEAD, "outcome": outcome, "finished_at": "$$NOW"}}
        ]


def unchanged_query(run: Document, target: RunState) -> Document:
    """Returns a filter that matches while the run is as it was read: same owner, and no turn committed meanwhile."""
    return {
        "_id": run["_id"],
        "state": transition_filter(RunState.RUNNING, target),
        "lease.token": run["lease"]["token"],
        "worker_losses": run["worker_losses"],  # a committed turn resets them
        # For a cancellation requested only now, the next pass ends the run with its usage.
        "cancel_requested": {"$ne": None} if target is RunState.CANCELLED else None,
    }


def describe_losses(losses: int, alone: int) -> str:
    return f"{losses} worker{'s' if losses != 1 else ''} lost{describe_isolated_losses(alone)}"


def loss_reason(losses: int, alone: int) -> str:
    return f"its worker was lost {losses} times{describe_isolated_losses(alone)}"


def describe_isolated_losses(alone: int) -> str:
    return f", {alone} of them while it ran alone" if alone else ""


def pause_before_next(run: Document, losses: int, alone: int, *, seen_isolated: bool) -> float:
    """Returns the pause in seconds.

    A shared loss needs none: a run that becomes a suspect by it does not harm others the next time.
    """
    if seen_isolated:
        return float(ISOLATED_PAUSE_S * 2 ** (alone - 1))
    if was_isolated(run):
        return float(min(UNSEEN_PAUSE_S * 2 ** max(losses - SUSPECT_LOSSES - alone - 1, 0), MAX_PAUSE_S))
    return 0.0


def was_isolated(run: Any) -> bool:
    """Returns whether its owner was a process without other runs."""
    return bool(run["lease"].get("alone"))


def _requeue_stages(pause_s: float) -> list[Document]:
    """Requeues with a random delay, so that runs that were lost together do not return together."""
    lost = {"wakes": 0, "last_requeue": {"reason": OutcomeKind.WORKER_LOST.value, "at": "$$NOW"}}
    if pause_s == 0:
        return [{"$set": {**lost, **READY, "wake_at": "$$NOW"}}]
    due = {"$add": ["$$NOW", {"$multiply": [pause_s * 1000, {"$add": [0.5, {"$rand": {}}]}]}]}
    # Two stages, since each $rand gives another value.
    return [{"$set": {**lost, "not_before": due}}, {"$set": {"wake_at": "$not_before"}}]


def target_of(run: Document, losses: int, alone: int) -> RunState:
    if run.get("cancel_requested") is not None:
        return RunState.CANCELLED
    return RunState.PARKED if alone >= MAX_ISOLATED_LOSSES or losses >= MAX_LOSSES else RunState.QUEUED


class ExpiredLeases:
    def __init__(self, store: RunStore) -> None:
        self._runs = store.runs
        self._losses = WorkerLosses(store)

    def batches(self, *, put_off: Collection[str], batch_size: int = BATCH) -> AsyncIterator[Sequence[Document]]:
        """Yields batches of runs with expired leases.

        `put_off`: ids to skip in this pass; may grow meanwhile.
        """
        return EXPIRED_LEASE.batches(self._runs, LOSS_FIELDS, excluded_ids=put_off, batch_size=batch_size)

    async def charge(self, run: Document, *, within_s: float) -> RunState | None:
        """Charges the run; returns its new state, or None if it has changed since it was read.

        Raises a PyMongoError that is a timeout if the run is locked for longer than `within_s`.
        """
        # Checked again, since the owner may have renewed its lease meanwhile.
        expired = {"$expr": EXPIRED_LEASE.query["$expr"]}
        with pymongo.timeout(within_s):
            return await self._losses.charge(run, extra_query=expired, cause="its lease ran out")
