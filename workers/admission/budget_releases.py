"""Budget releases: the step of the reconciler that releases runs held by a budget."""

import logging
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime

from workers.admission.limits.budget_limit import BudgetLimit
from workers.store.held_runs import HeldRuns
from workers.store.limit_name import LimitKind, LimitName
from workers.store.run import HoldKind
from workers.store.run_store import RunStore
from workers.wakeup_sender import WakeupSender

log = logging.getLogger(__name__)

MAX_RELEASED = 500


class BudgetReleases:
    def __init__(
        self, store: RunStore, wakeups: WakeupSender, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._held = HeldRuns(store)
        self._budgets = BudgetLimit(store, self._held, clock=clock)
        self._wakeups = wakeups
        self._last_app: dict[LimitName, str] = {}

    async def run_pass(self, counts: Counter[str]) -> None:
        limits = await self._held.limits_of(LimitKind.BUDGET)
        self._last_app = {limit: app for limit, app in self._last_app.items() if limit in limits}
        await self._budgets.look(limits)
        left = MAX_RELEASED
        for limit in limits:
            room = min(await self._budgets.has_room(limit), left)
            released = await self._release(limit, room) if room > 0 else 0
            counts[HoldKind.BUDGET.value] += released
            left -= released

    async def _release(self, limit: LimitName, count: int) -> int:
        released = await self._budgets.release(limit, count=count, after=self._last_app.get(limit, ""))
        self._last_app[limit] = released.last_app
        for run_id in released.run_ids:
            self._wakeups.send(run_id)
        if released.run_ids:
            log.info("runs_released", extra={"by": str(limit), "count": len(released.run_ids)})
        return len(released.run_ids)
