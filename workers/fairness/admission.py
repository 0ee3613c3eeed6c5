"""Admission: may a run that was just claimed be worked on, and whose turn is it when one leaves.

1. A claimed run is counted like all that run. Is that more than a cap allows, it is given back and held: of claims
   made side by side at least one sees all the others, so that a cap is never exceeded. One process asks for one
   claim after the other, or a burst would see itself and give everything back.
2. When a run leaves, the next one of each of its limits that has room is let go. It needs no scan and no scheduler.

Without caps there is no question to the store at all. What a dead worker leaves undone, `releases` finds.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from datetime import timedelta
from typing import Any

from pymongo.errors import PyMongoError

from workers.fairness.caps import Caps, Limit
from workers.fairness.held import HeldRuns
from workers.fairness.rates import Rates
from workers.store.ownership import Ownership
from workers.store.run import Claim, Hold, HoldKind, LeaseLostError, labels
from workers.store.run_store import RunStore
from workers.waking import Wake

log = logging.getLogger(__name__)


class Admission:
    def __init__(
        self, caps: Caps, store: RunStore, ownership: Ownership, wakeups: Wake, on_held: Callable[[HoldKind], None]
    ) -> None:
        self._caps = caps
        self._held = HeldRuns(store)
        self._rates = Rates(store.database)
        self._ownership = ownership
        self._wakeups = wakeups
        self._on_held = on_held
        self._one_at_a_time = asyncio.Lock()

    def one_at_a_time(self) -> AbstractAsyncContextManager[Any]:
        return self._one_at_a_time if self._caps else nullcontext()

    async def admitted(self, claim: Claim) -> bool:
        """False when it was given back, and is nobody's now."""
        if not self._caps:
            return True
        try:
            hold = await self._over(claim)
            if hold is None:
                return True
            await self._ownership.hold(claim, hold)
        except LeaseLostError:
            return False
        except PyMongoError as error:
            await self._give_back(claim, reason=f"store unavailable: {type(error).__name__}")
            raise
        self._on_held(hold.kind)
        log.info("run_held", extra={**labels(claim.document), "hold": hold.kind.value, "by": hold.by})
        await self.release_after(claim)
        return False

    async def _over(self, claim: Claim) -> Hold | None:
        app_id, workflow = claim.document["app_id"], claim.document["workflow"]
        for limit in self._caps.limits_of(app_id, workflow):
            if await self._held.running(limit.name, up_to=limit.most + 1) > limit.most:
                return Hold(HoldKind.CONCURRENCY, limit.name)
        rate = self._caps.rate_of(app_id)
        if rate is None or not is_first_start(claim.document):
            return None
        name = f"rate:{app_id}"
        first = await self._held.first_of(name)
        if first is not None and goes_before(first, claim.document):
            return Hold(HoldKind.RATE, name)  # or those that are held would wait for ever behind those that come
        return None if await self._rates.take(app_id, rate) else Hold(HoldKind.RATE, name)

    async def _give_back(self, claim: Claim, *, reason: str) -> None:
        with suppress(PyMongoError, LeaseLostError):  # who cannot be told finds it by its lease
            await self._ownership.requeue(claim, delay=timedelta(0), counts_as_attempt=False, reason=reason)

    async def release_after(self, claim: Claim) -> str | None:
        """A run that may go on in the place of this one, which has left; for any more, wake-ups are sent."""
        released: list[str] = []
        try:
            for limit in self._caps.limits_of(claim.document["app_id"], claim.document["workflow"]):
                if await self._held.first_of(limit.name) is not None and await self._has_room(limit):
                    run_id = await self._held.release_next(limit.name, after=claim.document["app_id"])
                    released += [run_id] if run_id is not None else []
        except PyMongoError as error:
            log.warning("release_left_to_reconciler", extra={**labels(claim.document), "error": type(error).__name__})
        for run_id in released[1:]:
            self._wakeups.send(run_id)
        return released[0] if released else None

    async def _has_room(self, limit: Limit) -> bool:
        return await self._held.taken(limit.name, up_to=limit.most) < limit.most


def is_first_start(run: Mapping[str, Any]) -> bool:
    return bool(run["started_at"] == run["claimed_at"])


def goes_before(held: Mapping[str, Any], run: Mapping[str, Any]) -> bool:
    """Priority first, then age: run ids sort by time."""
    return (-held["priority"], held["_id"]) < (-run["priority"], run["_id"])
