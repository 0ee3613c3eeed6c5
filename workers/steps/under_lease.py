"""The lease of a run: renewed while the steps work. A run that is cut off is handed back."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta

from pymongo.errors import PyMongoError

from accounting.infra.aio import run_shielded
from workers.crash_points import crash_point
from workers.logs import log_context
from workers.steps.hand_back import hand_back
from workers.steps.retry_policy import Requeue
from workers.steps.run_execution import RunExecution
from workers.store.run import LeaseLostError

log = logging.getLogger(__name__)

STORE_TRY_S = 5.0


@asynccontextmanager
async def under_lease(run: RunExecution) -> AsyncIterator[None]:
    """Holds the lease of the run from its claim to its release.

    A run that is cut off in between is handed back, or left to its new owner.
    """
    crash_point("claimed")
    clear_cancellation()  # a cancellation of an earlier run in this task does not apply to this run
    claim, services = run.claim, run.services
    with log_context(**run.labels, attempt=claim.attempt), services.tracing.run_span(claim):
        log.info("run_claimed", extra={"token": claim.token})
        services.events.record_start(claim.document)
        cut_off: list[str] = []
        with _cut_off(run, cut_off), services.lease.renew_while(claim), services.shutdown.interruptible():
            try:
                yield  # no await before this: a failure there would not hand the run back
            except asyncio.CancelledError:
                # A run with a lost lease may have no new owner yet, so it is handed back too.
                if services.lease.is_lost(claim):
                    cut_off.append("the lease was not renewed")
                elif services.shutdown.is_stopping():
                    cut_off.append("this worker is stopping")
                else:
                    raise
        if cut_off:
            await run_shielded(hand_back_when_store_is_back(run, reason=cut_off[0]))


@contextmanager
def _cut_off(run: RunExecution, reasons: list[str]) -> Iterator[None]:
    try:
        yield
    except LeaseLostError:
        _log_lost(run)
    except PyMongoError as error:
        reasons.append(f"store unavailable: {type(error).__name__}")


def clear_cancellation() -> None:
    """Resets the task's cancellation count, so that the next await is not taken for cancelled.

    A library may have swallowed a cancellation that has done its work.
    """
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()


async def hand_back_when_store_is_back(run: RunExecution, *, reason: str) -> None:
    """Requeues the run as soon as the store answers, without counting an attempt.

    If the store is down for longer than the lease, the reconciler finds the run by its lease. A worker that stops gives
    up before it is killed, even if the store hangs while it answers.
    """
    services = run.services
    log.warning("run_interrupted", extra={**run.labels, "reason": reason})
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + services.lease_s
    while (left_s := min(give_up_at - loop.time(), services.shutdown.seconds_left())) > 0:
        try:
            async with asyncio.timeout(min(left_s, STORE_TRY_S)):
                await hand_back(run, Requeue(timedelta(0), counts_as_attempt=False), reason=reason)
        except LeaseLostError:
            _log_lost(run)
            return
        except (PyMongoError, TimeoutError):
            await asyncio.sleep(services.store_retry_s)
        else:
            return


def _log_lost(run: RunExecution) -> None:
    run.services.events.record_fenced_write()
    log.warning("run_left_to_its_new_owner", extra=run.labels)
