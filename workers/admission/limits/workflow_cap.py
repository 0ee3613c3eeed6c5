"""The cap of a workflow: the maximum of its concurrent runs over all apps.

Waiting apps take turns.
"""

from workers.admission.cap_settings import Caps
from workers.admission.limits.app_cap import hold_over_cap
from workers.admission.limits.limit import UNLIMITED, Released
from workers.admission.release_policy import ReleasePolicy
from workers.store.held_runs import HeldRuns
from workers.store.limit_name import LimitKind, LimitName
from workers.store.run import Claim, Hold


class WorkflowCap:
    def __init__(self, caps: Caps, held: HeldRuns, policy: ReleasePolicy) -> None:
        self._caps = caps
        self._held = held
        self._policy = policy

    async def has_room(self, limit: LimitName) -> int:
        cap = self._caps.workflow_cap(limit.name)
        return UNLIMITED if cap is None else max(cap - await self._held.count_taken(limit, up_to=cap), 0)

    async def admit(self, claim: Claim) -> Hold | None:
        limit = LimitName(LimitKind.WORKFLOW, claim.document["workflow"])
        return await hold_over_cap(self._held, limit, self._caps.workflow_cap(limit.name))

    async def release(self, limit: LimitName, *, count: int, after: str = "") -> Released:
        return await self._policy.release_round_robin(limit, count=count, after=after)
