"""Acceptance: a trigger's request becomes a durable run, then a wake-up is sent.

The order is the promise. The insert is majority-acknowledged before anybody is told "accepted"; the
message comes after and may be lost, since the reconciler re-publishes what stays queued.
"""

import logging
from typing import Protocol

from workers.landmarks import passed
from workers.store.run import Accepted, RunRequest
from workers.tracing.tracing import NO_TRACING, Asked, Tracing
from workers.waking import Wake

log = logging.getLogger(__name__)


class Store(Protocol):
    async def insert(self, request: RunRequest) -> Accepted: ...


class Acceptance:
    def __init__(self, store: Store, wakeups: Wake, tracing: Tracing = NO_TRACING) -> None:
        self._store = store
        self._wakeups = wakeups
        self._tracing = tracing

    async def accept(self, request: RunRequest) -> Accepted:
        asked = self.asked(request)
        passed("accepting")
        try:
            accepted = await self._store.insert(asked.request)
        except BaseException as error:
            asked.failed(error)
            raise
        return self.told(asked, accepted)

    def asked(self, request: RunRequest) -> Asked:
        """For whoever inserts many at once: `request` of it is what to insert, and then it is `told`."""
        return self._tracing.asked(request)

    def told(self, asked: Asked, accepted: Accepted) -> Accepted:
        """Of a run that is durable by now: the log, the trace and the workers hear of it."""
        passed("inserted")
        request = asked.request
        asked.accepted(accepted)
        if log.isEnabledFor(logging.INFO):
            log.info(
                "run_accepted" if accepted.created else "event_merged" if accepted.merged else "duplicate_dropped",
                extra={
                    "run_id": accepted.run_id,
                    "app_id": request.app_id,
                    "workflow": request.workflow,
                    "trigger": request.trigger.name,
                    **asked.log_fields,
                },
            )
        # Whoever has to wait for its time or its turn is woken by what it waits for.
        if accepted.created and accepted.ready:
            self._wakeups.send(accepted.run_id)
        return accepted
