"""Cancel and discard: end a run on request, whatever its state.

1. A waiting run (queued, or for a person) ends at once, in one atomic update. No worker has to be up.
2. A running run gets a mark. Its worker reads it with the next heartbeat, closes the chat and ends the run. If the run
   is given up before that, the mark ends it as well (`ENDED_IF_CANCELLED`).
3. A parked run keeps the outcome that it was counted under, and stores how it was resolved. It ends now, so that
   retention does not delete it right away.

Between read and write the run may change: then the write matches nothing, and the command reads again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from accounting.totals.usage_query import run_totals
from workers.control.change_result import MAX_TRIES, PAUSE_S, RefusedError, RunChange, known_state, log_labels, read_run
from workers.store.operator_writes import RunChanges
from workers.store.run import RunState
from workers.store.run_document import Document
from workers.store.run_store import RunStore

log = logging.getLogger(__name__)

_Step = Callable[[RunStore, Document, str], Awaitable[RunChange | None]]


async def cancel(store: RunStore, run_id: str, *, by: str, app_id: str | None = None) -> RunChange:
    """Cancels the run for `by`. Raises RefusedError if it has succeeded or failed."""
    return await _apply_step(store, run_id, by=by, app_id=app_id, steps=_CANCEL)


async def discard(store: RunStore, run_id: str, *, by: str, app_id: str | None = None) -> RunChange:
    """Ends a run that is at rest: parked, or waiting for a person."""
    return await _apply_step(store, run_id, by=by, app_id=app_id, steps=_DISCARD)


async def _apply_step(
    store: RunStore, run_id: str, *, by: str, app_id: str | None, steps: dict[RunState, _Step]
) -> RunChange:
    for _ in range(MAX_TRIES):
        run = await read_run(store, run_id, app_id)
        done = await steps[known_state(run)](store, run, by)
        if done is not None:
            return done
        await asyncio.sleep(PAUSE_S)
    raise RefusedError(f"{run_id} changes faster than it can be cancelled; try again")


async def _end_run(store: RunStore, run: Document, by: str) -> RunChange | None:
    usage = (await run_totals(store.database, run["_id"])).as_json()
    if not await RunChanges(store).end_as_cancelled(run, by=by, usage=usage):
        return None
    log.info("run_cancelled", extra={**log_labels(run, by), "was": run["state"]})
    await store.order.release_after(run)
    return RunChange(run["_id"], RunState.CANCELLED, "cancelled")


async def _resolve_run(store: RunStore, run: Document, by: str) -> RunChange | None:
    if not await RunChanges(store).resolve_parked(run, by=by):
        return None
    log.info("run_discarded", extra=log_labels(run, by))
    return RunChange(run["_id"], RunState.CANCELLED, "discarded; its outcome stays as it was")


async def _request_cancellation(store: RunStore, run: Document, by: str) -> RunChange | None:
    request = run.get("cancel_requested")
    if request:
        description = f"was asked to stop already, by {request['by']}; {_SOON_TEXT}"
        return RunChange(run["_id"], RunState.RUNNING, description, changed=False)
    if not await RunChanges(store).request_cancel(run, by=by):
        return None
    log.info("cancel_requested", extra=log_labels(run, by))
    return RunChange(run["_id"], RunState.RUNNING, f"is asked to stop; {_SOON_TEXT}")


async def _report_cancelled(_store: RunStore, run: Document, _by: str) -> RunChange:
    return RunChange(run["_id"], RunState.CANCELLED, "was cancelled already", changed=False)


def _refuse(reason: str) -> _Step:
    async def step(_store: RunStore, run: Document, _by: str) -> RunChange:
        raise RefusedError(f"{run['_id']} {reason}")

    return step


_SOON_TEXT = "its worker ends it with the next heartbeat"
_CANCEL: dict[RunState, _Step] = {
    RunState.QUEUED: _end_run,
    RunState.NEEDS_HUMAN: _end_run,
    RunState.RUNNING: _request_cancellation,
    RunState.PARKED: _resolve_run,
    RunState.CANCELLED: _report_cancelled,
    RunState.SUCCEEDED: _refuse("has succeeded already; nothing is left to cancel"),
    RunState.FAILED: _refuse("has failed already; nothing is left to cancel"),
}
_DISCARD: dict[RunState, _Step] = {
    RunState.PARKED: _resolve_run,
    RunState.NEEDS_HUMAN: _end_run,
    RunState.CANCELLED: _report_cancelled,
    RunState.QUEUED: _refuse("is queued; cancel it instead"),
    RunState.RUNNING: _refuse("is running; cancel it instead"),
    RunState.SUCCEEDED: _refuse("has succeeded already; nothing is left to discard"),
    RunState.FAILED: _refuse("has failed already; nothing is left to discard"),
}
