"""The rate of an app: the maximum of its starts in a time.

A run that waits for its rate starts before a new one.
"""

from workers.admission.cap_settings import Caps
from workers.admission.limits.limit import UNLIMITED, Released, is_first_start
from workers.admission.release_policy import ReleasePolicy
from workers.store.held_runs import Head, HeldRuns
from workers.store.limit_name import LimitKind, LimitName
from workers.store.run import Claim, Hold
from workers.store.start_rate_store import StartRates


class StartRate:
    def __init__(self, caps: Caps, held: HeldRuns, rates: StartRates, policy: ReleasePolicy) -> None:
        self._caps = caps
        self._held = held
        self._rates = rates
        self._policy = policy

    async def has_room(self, limit: LimitName) -> int:
        rate = self._caps.rate_for(limit.name)
        if rate is None:
            return UNLIMITED
        starts = (await self._rates.count_free_starts({limit.name: rate}))[limit.name]
        return max(starts - await self._held.count_released(limit, up_to=starts), 0) if starts else 0

    async def admit(self, claim: Claim) -> Hold | None:
        run = claim.document
        limit, rate = LimitName(LimitKind.RATE, run["app_id"]), self._caps.rate_for(run["app_id"])
        if rate is None or not is_first_start(run):
            return None
        head = Head(run["app_id"], run["workflow"], claim.run_id, run["priority"])
        # Without this check new runs could overtake held ones for ever.
        if await self._policy.has_higher_priority_waiter(head, limit):
            return Hold(limit.hold_kind, str(limit))
        return None if await self._rates.try_acquire(limit.name, rate) else Hold(limit.hold_kind, str(limit))

    async def release(self, limit: LimitName, *, count: int, after: str = "") -> Released:
        return await self._policy.release_most_urgent(limit, count=count, after=after)
