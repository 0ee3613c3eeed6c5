"""All limits of a process, with one object for each kind."""

from collections.abc import AsyncIterator, Mapping

from workers.admission.cap_settings import Caps
from workers.admission.limits.app_cap import AppCap
from workers.admission.limits.budget_limit import BudgetAdmission, BudgetLimit
from workers.admission.limits.limit import Limit, Refused, Released
from workers.admission.limits.order_turn import OrderTurn
from workers.admission.limits.start_rate import StartRate
from workers.admission.limits.workflow_cap import WorkflowCap
from workers.admission.release_policy import MAX_APPS, ReleasePolicy
from workers.store.held_runs import Head, HeldRuns
from workers.store.limit_name import LimitKind, LimitName
from workers.store.run import Claim, Hold
from workers.store.run_order import order_key_of
from workers.store.run_store import RunStore
from workers.store.start_rate_store import StartRates

# Budgets come first: a run that they refuse or hold must not use a cap or a start of a rate.
_ADMISSION_ORDER = (LimitKind.BUDGET, LimitKind.APP, LimitKind.WORKFLOW, LimitKind.RATE, LimitKind.ORDER)


class AllLimits:
    def __init__(
        self,
        caps: Caps,
        store: RunStore,
        *,
        budgets: BudgetAdmission | None = None,
        max_apps: int = MAX_APPS,
    ) -> None:
        self._caps = caps
        self._held = held = HeldRuns(store)
        policy = ReleasePolicy(held, has_room=self.has_room, limits_of=self._limits_of, max_apps=max_apps)
        self._by_kind: Mapping[LimitKind, Limit] = {
            LimitKind.APP: AppCap(caps, held, policy),
            LimitKind.WORKFLOW: WorkflowCap(caps, held, policy),
            LimitKind.RATE: StartRate(caps, held, StartRates(store.database), policy),
            LimitKind.BUDGET: BudgetLimit(store, held, admission=budgets),
            LimitKind.ORDER: OrderTurn(store.order),
        }

    async def admit(self, claim: Claim) -> Hold | Refused | None:
        """Returns the verdict of the first limit that holds or refuses the run."""
        for kind in _ADMISSION_ORDER:
            verdict = await self._by_kind[kind].admit(claim)
            if verdict is not None:
                return verdict
        return None

    async def has_room(self, limit: LimitName) -> int:
        return await self._by_kind[limit.kind].has_room(limit)

    async def release(self, limit: LimitName, *, count: int, after: str = "") -> Released:
        return await self._by_kind[limit.kind].release(limit, count=count, after=after)

    async def release_after(self, claim: Claim) -> AsyncIterator[str]:
        """Releases the next run of each cap and of the order key of a run that has left."""
        app_id, workflow = claim.document["app_id"], claim.document["workflow"]
        for limit in self._caps.caps_for(app_id, workflow):
            if await self._held.has_waiters(limit) and await self.has_room(limit):
                for run_id in (await self.release(limit, count=1, after=app_id)).run_ids:
                    yield run_id
        key = order_key_of(claim.document)
        if key is not None:
            for run_id in (await self.release(LimitName(LimitKind.ORDER, key), count=1)).run_ids:
                yield run_id

    def _limits_of(self, head: Head) -> list[LimitName]:
        limits = list(self._caps.caps_for(head.app_id, head.workflow))
        if self._caps.rate_for(head.app_id) and not head.has_started:
            limits.append(LimitName(LimitKind.RATE, head.app_id))
        return limits
