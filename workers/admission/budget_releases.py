"""Budget releases: the step of the reconciler that releases runs held by a budget."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime

from workers.admission.limit_releases import release_and_wake
from workers.admission.limits.budget_limit import BudgetLimit
from workers.store.held_runs import HeldRuns
from workers.store.limit_name import LimitKind, LimitName
from workers.store.run import HoldKind
from workers.store.run_store import RunStore
from workers.wakeup_sender import WakeupSender

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
            released = await release_and_wake(
                self._budgets, limit, room, last_app=self._last_app, wakeups=self._wakeups
            )
            counts[HoldKind.BUDGET.value] += released
            left -= released
