"""Retry now: makes a run that waits for its next attempt due at once."""

import asyncio
import logging

from workers.control.change_result import MAX_TRIES, PAUSE_S, RefusedError, RunChange, known_state, log_labels, read_run
from workers.control.run_effects import find_effects
from workers.store.operator_writes import RunChanges
from workers.store.run import TERMINAL, HoldKind, RunState
from workers.store.run_document import Document
from workers.store.run_order import awaited_order_key
from workers.store.run_store import RunStore
from workers.wakeup_sender import WakeupSender

log = logging.getLogger(__name__)

_NOT_WAITING = {
    RunState.RUNNING: "is running now",
    RunState.PARKED: "is parked, its attempts are used up: a replay starts it anew",
    RunState.NEEDS_HUMAN: "waits for a person: an answer lets it go on",
    **{state: f"has ended ({state}): a replay starts it anew" for state in TERMINAL},
}


async def retry_now(
    store: RunStore, wake: WakeupSender, run_id: str, *, by: str, app_id: str | None = None
) -> RunChange:
    for _ in range(MAX_TRIES):
        run = await read_run(store, run_id, app_id)
        state = known_state(run)
        if state in _NOT_WAITING:
            raise RefusedError(f"{run_id} {_NOT_WAITING[state]}{await _describe_effects(store, run_id, state)}")
        if run["hold"] is not None:
            raise RefusedError(f"{run_id} is held by {describe_limit(run)}")
        if await RunChanges(store).make_due(run):
            log.info("retried_now", extra=log_labels(run, by))
            wake.send(run_id)
            return RunChange(run_id, state, "is due now")
        if "lane" in run:
            wake.send(run_id)  # spare, if its own wake-up is still in the queue
            return RunChange(run_id, state, "is due already, and waits for a worker", changed=False)
        await asyncio.sleep(PAUSE_S)
    raise RefusedError(f"{run_id} changes faster than it can be made due; try again")


async def _describe_effects(store: RunStore, run_id: str, state: RunState) -> str:
    """Lists the effects that a replay would repeat, next to the advice to replay."""
    if state is not RunState.PARKED and state not in TERMINAL:
        return ""
    effects = await find_effects(store, run_id)
    return f", and does again what it has done: {'; '.join(effects.sentences())}" if effects else ""


def describe_limit(run: Document) -> str:
    if (order_key := awaited_order_key(run)) is not None:
        return f"the order of {order_key}; it starts as soon as the run before it has left"
    by = run.get("held_by")
    if run["hold"] == HoldKind.BUDGET:
        return f"the {str(by).replace(':', ' ', 1)}; it starts as soon as there is money again"
    of_whom = f" of {by}" if by else ""
    return f"the {run['hold']} limit{of_whom}; it starts as soon as that has room"
