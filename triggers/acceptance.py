"""Acceptance: makes a run request durable, then sends a wake-up.

The order is a guarantee. The insert is majority-acknowledged before a caller gets "accepted". The wake-up comes after
it and may be lost: the reconciler publishes what stays queued again.
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
        span = self.start_span(request)
        crash_point("accepting")
        try:
            accepted = await self._store.insert(span.request)
        except BaseException as error:
            span.end_failed(error)
            raise
        return self.publish(span, accepted)

    def start_span(self, request: RunRequest) -> TracedRequest:
        """Starts the span of one request of a bulk insert; `publish` ends it."""
        return self._tracing.start_trigger_span(request)

    def publish(self, span: TracedRequest, accepted: Accepted) -> Accepted:
        """Logs a run that is durable, ends its span and wakes a worker."""
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
        # A run that waits for its time or its order key is woken by the release of that limit.
        if accepted.created and accepted.ready:
            self._wakeups.send(accepted.run_id)
        return accepted
