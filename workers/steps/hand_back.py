"""Hand-back: a run returns to the queue, for its next attempt or its next owner."""

import logging

from workers.steps.retry_policy import Requeue
from workers.steps.run_execution import RunExecution
from workers.store.run import RunState

log = logging.getLogger(__name__)


async def hand_back(run: RunExecution, decision: Requeue, *, reason: str) -> RunState:
    """Requeues or holds the run; returns CANCELLED if a cancellation was requested meanwhile."""
    claim, events, repository = run.claim, run.services.events, run.services.repository
    reason = reason[:300]
    if decision.hold is not None:
        state = await repository.put_on_hold(claim, decision.hold, reason=reason)
    else:
        state = await repository.requeue(
            claim, delay=decision.delay, counts_as_attempt=decision.counts_as_attempt, reason=reason
        )
    extra = {**run.labels, "why": reason}
    if state is RunState.CANCELLED:  # requested after the last heartbeat of this worker
        events.record_end(claim.document, state)
        log.info("run_cancelled", extra=extra)
    elif decision.hold is not None:
        events.record_hold(decision.hold.kind)
        log.info("run_held", extra={**extra, "hold": decision.hold.kind.value, "by": decision.hold.by})
    else:
        log.info("run_requeued", extra={**extra, "delay_s": decision.delay.total_seconds()})
    return state
