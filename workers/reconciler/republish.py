"""Republish: makes due runs ready and replaces lost wake-ups.

1. `_make_ready`: a queued run in no lane gets its lane and a ticket. That is a retry that is due, or a document of an
   older version.
2. `_replace_lost`: ready runs that were not claimed in time may have lost their tickets, or stand in a backlog. The
   length of the broker's queue shows which: a ticket starts any run, so only the difference between ready runs and
   tickets is sent. If all workers are down, or busy for hours, no pile of repeats builds up. A broker that lost
   everything is refilled as fast as workers take from it.

A worker of a version without lanes leaves a run in its lane when it claims it. During a rolling upgrade such runs are
taken out here, or workers would search for them until they are pruned.
"""

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal, Protocol, get_args

from accounting.infra.aio import gather_all
from workers.store.due_runs import NOT_CLAIMED, NOT_LISTED, DueRuns
from workers.store.run import RunState, run_labels
from workers.store.run_batches import MAX_PER_STEP, RunQuery
from workers.store.run_document import Document
from workers.store.run_store import RunStore
from workers.wakeup_sender import WakeupSender

log = logging.getLogger(__name__)

Reason = Literal["due", "older_version", "given_back", "lost"]
REASONS: tuple[Reason, ...] = get_args(Reason)
# Repairs that need no wake-up.
CLOCK, LANE = "clock", "lane"
CORRECTIONS = (CLOCK, LANE)

# Enough tickets for all workers until the next pass. More would start no run sooner.
MAX_TICKETS = MAX_PER_STEP


class Tickets(Protocol):
    async def count_waiting(self) -> int | None:
        """Returns the number of waiting wake-ups; None if the broker does not answer."""


class Republish:
    def __init__(self, store: RunStore, wakeups: WakeupSender, tickets: Tickets, republish_after_s: int) -> None:
        self._due = DueRuns(store, republish_after_s=republish_after_s)
        self._wakeups = wakeups
        self._tickets = tickets

    async def run_pass(self, counts: Counter[str]) -> None:
        await self._make_ready(counts)
        await self._correct_clocks(counts)
        await self._replace_lost(counts)

    async def _make_ready(self, counts: Counter[str]) -> None:
        await self._publish(NOT_LISTED, counts, limit=MAX_PER_STEP)

    async def _correct_clocks(self, counts: Counter[str]) -> None:
        """Corrects wake-up times of acceptors whose clock is ahead of the database's."""
        corrected = await self._due.correct_late_wake_ups()
        if corrected:
            counts[CLOCK] += corrected
            log.warning("wake_ups_corrected", extra={"runs": corrected, "reason": "accepted by a fast clock"})

    async def _replace_lost(self, counts: Counter[str]) -> None:
        if not await self._due.has_unclaimed():
            return
        waiting = await self._tickets.count_waiting()
        if waiting is None:
            return  # a broker that does not answer takes no wake-ups
        ready = await self._due.count_ready(up_to=MAX_TICKETS)
        await self._publish(NOT_CLAIMED, counts, limit=ready - waiting)

    async def _publish(self, due: RunQuery, counts: Counter[str], *, limit: int) -> None:
        async for batch in self._due.batches(due, limit=limit):
            reasons = await gather_all(self._wake(run, due, counts) for run in batch)
            counts.update(reason for reason in reasons if reason is not None)

    async def _wake(self, run: Document, due: RunQuery, counts: Counter[str]) -> Reason | None:
        if run["state"] != RunState.QUEUED.value:
            await self._take_out_of_lane(run, counts)
            return None
        if not await self._due.mark_woken(run, due):
            return None
        self._wakeups.send(run["_id"])
        reason = reason_of(run)
        log.info("run_republished", extra={**run_labels(run), "reason": reason, "wakes": run["wakes"] + 1})
        return reason

    async def _take_out_of_lane(self, run: Document, counts: Counter[str]) -> None:
        if await self._due.take_out_of_lane(run):
            counts[LANE] += 1
            log.info("run_taken_out_of_lane", extra={**run_labels(run), "reason": f"it is {run['state']}"})


def reason_of(run: Mapping[str, Any]) -> Reason:
    """Returns why this run needs a wake-up."""
    if run.get("lane") is None:
        return "older_version" if run.get("not_before") is None else "due"
    fresh = run["wakes"] == 0 and run.get("last_requeue") is not None
    return "given_back" if fresh else "lost"
