"""The wake-up handler: claims the run whose turn it is, executes it, and goes on with the run it releases."""

import logging

from workers.engine import execute
from workers.process.worker import WorkerProcess

log = logging.getLogger(__name__)


async def handle_wakeup(wakeup: str, worker: WorkerProcess) -> None:
    """A wake-up is a ticket to start one run; the lanes choose which, maybe another than the one it names."""
    ticket: str | None = wakeup
    while ticket is not None:
        claim = await worker.lanes.claim_next(ticket)
        if claim is None:
            worker.metrics.record_idle_wakeup()
            log.debug("nothing_to_claim", extra={"run_id": ticket})
            return
        if claim.is_isolated:
            await worker.isolated.serve(claim)
            # A suspect has more tickets than places: whichever frees one looks for the next.
            ticket = None if worker.is_stopping() else claim.run_id
            continue
        await execute(claim, worker.services)
        # When draining, release no further run: this worker would not execute it. The reconciler will.
        ticket = None if worker.is_stopping() else await worker.admission.release_after(claim)
