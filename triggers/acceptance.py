"""Acceptance: a trigger's request becomes a durable run, then a wake-up is sent.

The order is the promise. The insert is majority-acknowledged before anybody is told "accepted"; the
message comes after and may be lost, since the reconciler re-publishes what stays queued.
"""

import logging

from workers.crash_points import crash_point
from workers.store.run import Accepted, RunRequest
from workers.store.run_store import RunStore
from workers.tracing.tracing import NO_TRACING, TracedRequest, Tracing
from workers.wakeup_sender import WakeupSender

log = logging.getLogger(__name__)


class Acceptance:
    def __init__(self, store: RunStore, wakeups: WakeupSender, tracing: Tracing = NO_TRACING) -> None:
        self._store = store
        self._wakeups = wakeups
        self._tracing = tracing

    async def accept(self, request: RunRequest) -> Accepted:
        asked = self.start_span(request)
        crash_point("accepting")
        try:
            accepted = await self._store.insert(asked.request)
        except BaseException as error:
            asked.end_failed(error)
            raise
        return self.publish(asked, accepted)

    def start_span(self, request: RunRequest) -> TracedRequest:
        """For whoever inserts many at once: `request` of it is what to insert, and then it is `told`."""
        return self._tracing.start_trigger_span(request)

    def publish(self, span: TracedRequest, accepted: Accepted) -> Accepted:
        """Of a run that is durable by now: the log, the trace and the workers hear of it."""
        crash_point("inserted")
        request = span.request
        span.end_accepted(accepted)
        if log.isEnabledFor(logging.INFO):
            log.info(
                "run_accepted" if accepted.created else "event_merged" if accepted.merged else "duplicate_dropped",
                extra={
                    "run_id": accepted.run_id,
                    "app_id": request.app_id,
                    "workflow": request.workflow,
                    "trigger": request.trigger.name,
                    **span.log_fields,
                },
            )
        # Whoever has to wait for its time or its turn is woken by what it waits for.
        if accepted.created and accepted.ready:
            self._wakeups.send(accepted.run_id)
        return accepted
