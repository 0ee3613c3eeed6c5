"""Re-publishing: every ready run has a ticket, and a run whose time has come is ready.

1. `_make_ready`: a queued run that no lane knows yet gets its lane, and a ticket of its own. That is a retry whose
   time has come, or a document of an older version.
2. `_replace_lost`: ready runs that nobody claimed in time may have lost their tickets, or stand in a backlog. The
   broker tells which: a ticket starts any run, so only as many are sent as there are fewer tickets than ready runs.
   Workers that are all down, or busy for hours, find no pile of repeats; a broker that lost everything is filled up
   again as fast as workers take from it.

A worker of a version that knew no lanes leaves a run in its lane when it claims it. During a rolling upgrade such runs
turn up here and are taken out, or workers would look for them, and this for their tickets, until they are pruned.
"""

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal, Protocol, get_args

from pymongo import DESCENDING

from accounting.infra.aio import gather_all
from workers.reconciling.batches import BATCH, MOST, Question
from workers.store.run import RunState, labels
from workers.store.run_document import NOT_READY, READY, Document
from workers.store.run_store import RunStore
from workers.store.transitions import sources_of
from workers.wakeup_sender import WakeupSender

log = logging.getLogger(__name__)

Reason = Literal["due", "older_version", "given_back", "lost"]
REASONS: tuple[Reason, ...] = get_args(Reason)
# What is put right without a wake-up.
CLOCK, LANE = "clock", "lane"
CORRECTIONS = (CLOCK, LANE)

# Enough for the workers until the next pass: beyond this nobody starts sooner for one more ticket.
ENOUGH = MOST

_FIELDS = ("app_id", "workflow", "state", "lane", "wake_at", "wakes", "not_before", "last_requeue")
_FREE: Document = {"state": {"$in": sources_of(RunState.RUNNING)}, "hold": None}
NOT_LISTED = Question(
    {
        "state": RunState.QUEUED.value,
        "hold": None,
        "lane": None,
        # null sorts before every date: a run without `not_before` is always due
        "$expr": {"$and": [{"$lte": ["$wake_at", "$$NOW"]}, {"$lte": ["$not_before", "$$NOW"]}]},
    },
    sort="wake_at",
    index="by_lane_and_wake_up",
)
NOT_CLAIMED = Question(
    {"lane": {"$exists": True}, "$expr": {"$lte": ["$wake_at", "$$NOW"]}}, sort="wake_at", index="by_ticket"
)


class Tickets(Protocol):
    async def count_waiting(self) -> int | None:
        """How many wake-ups wait for a worker; None while the broker does not answer."""


class Republish:
    def __init__(self, store: RunStore, wakeups: WakeupSender, tickets: Tickets, republish_after_s: int) -> None:
        self._runs = store.runs
        self._wakeups = wakeups
        self._tickets = tickets
        self._republish_after_s = republish_after_s

    async def run_pass(self, counts: Counter[str]) -> None:
        await self._make_ready(counts)
        await self._correct_clocks(counts)
        await self._replace_lost(counts)

    async def _make_ready(self, counts: Counter[str]) -> None:
        await self._publish(NOT_LISTED, counts, most=MOST)

    async def _correct_clocks(self, counts: Counter[str]) -> None:
        """No ready run is to be looked at so late: whoever accepted it has a clock that is ahead of the database's."""
        soon = {"$add": ["$$NOW", self._republish_after_s * 1000]}
        late = {"$gt": ["$wake_at", {"$add": ["$$NOW", 2 * self._republish_after_s * 1000]}]}
        latest: list[Document] = [
            {"$match": {"lane": {"$exists": True}}},
            {"$sort": {"wake_at": DESCENDING}},
            {"$limit": BATCH},
            {"$match": {"$expr": late}},
            {"$project": {"_id": 1}},
        ]
        run_ids = [run["_id"] async for run in await self._runs.aggregate(latest, hint=NOT_CLAIMED.index)]
        if not run_ids:
            return
        far_off = {"_id": {"$in": run_ids}, "lane": {"$exists": True}, "$expr": late}
        written = await self._runs.update_many(far_off, [{"$set": {"wake_at": soon}}])
        counts[CLOCK] += written.modified_count
        log.warning("wake_ups_corrected", extra={"runs": written.modified_count, "reason": "accepted by a fast clock"})

    async def _replace_lost(self, counts: Counter[str]) -> None:
        if await self._runs.find_one(NOT_CLAIMED.query, {"_id": 1}, hint=NOT_CLAIMED.index) is None:
            return
        waiting = await self._tickets.count_waiting()
        if waiting is None:
            return  # who cannot be asked cannot be told either
        ready = await self._runs.count_documents({"lane": {"$gte": ""}}, limit=ENOUGH, hint="by_lane")
        await self._publish(NOT_CLAIMED, counts, most=ready - waiting)

    async def _publish(self, question: Question, counts: Counter[str], *, most: int) -> None:
        async for batch in question.batches(self._runs, _FIELDS, most=most):
            reasons = await gather_all(self._wake(run, question, counts) for run in batch)
            counts.update(reason for reason in reasons if reason is not None)

    async def _wake(self, run: Document, question: Question, counts: Counter[str]) -> Reason | None:
        if run["state"] != RunState.QUEUED.value:
            await self._take_out_of_lane(run, counts)
            return None
        due = {"$add": ["$$NOW", self._republish_after_s * 1000]}
        seen = {**question.query, **_FREE, "_id": run["_id"], "wake_at": run["wake_at"]}
        change: Document = {"wake_at": due, "wakes": {"$add": ["$wakes", 1]}}
        if question is NOT_LISTED:
            change |= READY
        written = await self._runs.update_one(seen, [{"$set": change}])
        if written.matched_count == 0:
            return None
        self._wakeups.send(run["_id"])
        reason = reason_of(run)
        log.info("run_republished", extra={**labels(run), "reason": reason, "wakes": run["wakes"] + 1})
        return reason

    async def _take_out_of_lane(self, run: Document, counts: Counter[str]) -> None:
        left = {"_id": run["_id"], "state": {"$ne": RunState.QUEUED.value}, "lane": {"$exists": True}}
        if (await self._runs.update_one(left, [{"$set": NOT_READY}])).matched_count:
            counts[LANE] += 1
            log.info("run_taken_out_of_lane", extra={**labels(run), "reason": f"it is {run['state']}"})


def reason_of(run: Mapping[str, Any]) -> Reason:
    """Why a run that was read like this needs a wake-up."""
    if run.get("lane") is None:
        return "older_version" if run.get("not_before") is None else "due"
    fresh = run["wakes"] == 0 and run.get("last_requeue") is not None
    return "given_back" if fresh else "lost"
