"""Admission: may a run that was just claimed be worked on, and whose turn is it when one leaves.

1. A claimed run is counted like all that run. Is that more than a cap allows, it is given back and held: of claims
   made side by side at least one sees all the others, so that a cap is never exceeded. One process asks for one
   claim after the other, or a burst would see itself and give everything back.
2. When a run leaves, the next one of each of its limits that has room is let go, and the next one of its order: no
   scan, and no scheduler, but for what waits for a rate.

Without caps and budgets there is no question to the store at all. What a dead worker leaves undone, `releases` finds.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from datetime import timedelta
from typing import Any

from pymongo.errors import PyMongoError

from workers.fairness.budget_door import BudgetDoor, is_first_start
from workers.fairness.caps import Caps
from workers.fairness.held import Head, HeldRuns
from workers.fairness.letting_go import LettingGo
from workers.fairness.rates import Rates
from workers.store.mongo_repository import MongoRunRepository
from workers.store.ordering import order_key_of
from workers.store.run import Claim, Hold, HoldKind, LeaseLostError, RunState, labels
from workers.store.run_store import RunStore
from workers.waking import Wake

log = logging.getLogger(__name__)


class Admission:
    def __init__(
        self,
        caps: Caps,
        store: RunStore,
        ownership: MongoRunRepository,
        wakeups: Wake,
        *,
        budgets: BudgetDoor | None = None,
        on_held: Callable[[HoldKind], None],
        on_fenced: Callable[[], None],
    ) -> None:
        self._caps = caps
        self._budgets = budgets
        self._held = HeldRuns(store)
        self._rates = Rates(store.database)
        self._order = store.order
        self._letting_go = LettingGo(caps, self._held, self._rates)
        self._ownership = ownership
        self._wakeups = wakeups
        self._on_held = on_held
        self._on_fenced = on_fenced
        self._one_at_a_time = asyncio.Lock()

    def one_at_a_time(self) -> AbstractAsyncContextManager[Any]:
        return self._one_at_a_time if self._caps else nullcontext()

    async def admitted(self, claim: Claim) -> bool:
        """False when it was given back or has ended, and is nobody's now."""
        try:
            verdict = await self._verdict(claim)
            if verdict is None:
                return True
            if isinstance(verdict, Hold):
                await self._hold(claim, verdict)
        except LeaseLostError:
            self._on_fenced()
            return False
        except PyMongoError as error:
            await self._give_back(claim, reason=f"store unavailable: {type(error).__name__}")
            raise
        await self.release_after(claim)
        return False

    async def _verdict(self, claim: Claim) -> Hold | RunState | None:
        """What holds it, or the state in which it has ended."""
        verdict = None if self._budgets is None else await self._budgets.verdict(claim)
        if verdict is None and self._caps:
            return await self._over(claim)
        return verdict

    async def _hold(self, claim: Claim, hold: Hold) -> None:
        if await self._ownership.hold(claim, hold) is RunState.QUEUED:
            self._on_held(hold.kind)
            log.info("run_held", extra={**labels(claim.document), "hold": hold.kind.value, "by": hold.by})
        else:
            log.info("run_cancelled", extra={**labels(claim.document), "why": "before it started"})

    async def _over(self, claim: Claim) -> Hold | None:
        app_id, workflow = claim.document["app_id"], claim.document["workflow"]
        for limit in self._caps.limits_of(app_id, workflow):
            # Those on their way, too: who just came does not take the place that somebody was let go for.
            if await self._held.taken(limit.name, up_to=limit.most + 1) > limit.most:
                return Hold(HoldKind.CONCURRENCY, limit.name)
        rate = self._caps.rate_of(app_id)
        if rate is None or not is_first_start(claim.document):
            return None
        hold = Hold(HoldKind.RATE, f"rate:{app_id}")
        run = Head(app_id, workflow, claim.run_id, claim.document["priority"])
        if await self._letting_go.somebody_goes_before(run, hold.by):
            return hold  # or those that are held would wait for ever behind those that come
        return None if await self._rates.take(app_id, rate) else hold

    async def _give_back(self, claim: Claim, *, reason: str) -> None:
        with suppress(PyMongoError, LeaseLostError):  # who cannot be told finds it by its lease
            await self._ownership.requeue(claim, delay=timedelta(0), counts_as_attempt=False, reason=reason)

    async def release_after(self, claim: Claim) -> str | None:
        """A run that may go on in the place of this one, which has left; for any more, wake-ups are sent."""
        released: list[str] = []
        try:
            for limit in self._caps.limits_of(claim.document["app_id"], claim.document["workflow"]):
                if await self._held.anybody(limit.name) and await self._letting_go.room(limit.name):
                    run_ids, _ = await self._letting_go.let_go(limit.name, most=1, after=claim.document["app_id"])
                    released += run_ids
            released += await self._next_in_order(claim)
        except PyMongoError as error:
            log.warning("release_left_to_reconciler", extra={**labels(claim.document), "error": type(error).__name__})
        for run_id in released[1:]:
            self._wakeups.send(run_id)
        return released[0] if released else None

    async def _next_in_order(self, claim: Claim) -> list[str]:
        """None while the run keeps its turn: it waits for its next attempt, say."""
        key = order_key_of(claim.document)
        head = None if key is None else await self._order.let_next_go(key, woken=True)
        return [head["_id"]] if head is not None and "lane" in head else []
