"""The cap of an app: the maximum of its concurrent runs.

The most urgent run is released first, then the oldest.
"""

from workers.admission.cap_settings import Caps
from workers.admission.limits.limit import UNLIMITED, Released
from workers.admission.release_policy import ReleasePolicy
from workers.store.held_runs import HeldRuns
from workers.store.limit_name import LimitKind, LimitName
from workers.store.run import Claim, Hold


class AppCap:
    def __init__(self, caps: Caps, held: HeldRuns, policy: ReleasePolicy) -> None:
        self._caps = caps
        self._held = held
        self._policy = policy

    async def has_room(self, limit: LimitName) -> int:
        cap = self._caps.app_cap(limit.name)
        return UNLIMITED if cap is None else max(cap - await self._held.count_taken(limit, up_to=cap), 0)

    async def admit(self, claim: Claim) -> Hold | None:
        limit = LimitName(LimitKind.APP, claim.document["app_id"])
        return await hold_over_cap(self._held, limit, self._caps.app_cap(limit.name))

    async def release(self, limit: LimitName, *, count: int, after: str = "") -> Released:
        return await self._policy.release_most_urgent(limit, count=count, after=after)


async def hold_over_cap(held: HeldRuns, limit: LimitName, cap: int | None) -> Hold | None:
    """Returns a hold if the claimed run exceeds the cap.

    Released runs count too: a new run must not take the room of a released one.
    """
    if cap is None or await held.count_taken(limit, up_to=cap + 1) <= cap:
        return None
    return Hold(limit.hold_kind, str(limit))
