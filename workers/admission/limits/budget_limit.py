"""Budgets as a limit: a run whose budgets are spent is held until a window turns, or refused.

Held runs are released when the window of their budget has turned, its limit was raised, or it was deleted: the most
urgent first, then the oldest. Only a bounded number is released at a time, so that the rest stays held if the budget is
soon spent again.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime

from accounting.budgets.budget_service import BudgetService
from accounting.budgets.budget_store import BudgetStore, StoredBudget
from accounting.budgets.effective_budgets import EffectiveBudget, effective_budget
from accounting.budgets.window_store import WindowStore
from workers.admission.limits.limit import UNLIMITED, Refused, Released, is_first_start
from workers.admission.release_policy import rotate_after
from workers.store.held_runs import HeldRuns
from workers.store.limit_name import LimitKind, LimitName
from workers.store.run import Claim, Hold, HoldKind
from workers.store.run_store import RunStore

MAX_RELEASED_AT_ONCE = 100  # for a budget, or for an app of a budget for each app
MAX_APPS = 1_000  # of a budget in a pass; the next pass continues after them


class BudgetAdmission:
    """Checks the budgets of a run that the worker has claimed."""

    def __init__(self, budgets: BudgetService) -> None:
        self._budgets = budgets

    async def admit(self, claim: Claim) -> Hold | Refused | None:
        run = claim.document
        barred = await self._budgets.check_start(run["app_id"], run["workflow"], is_first_start=is_first_start(run))
        if barred is None:
            return None
        if barred.held_by is None:
            return Refused(barred.reason)
        return Hold(HoldKind.BUDGET, barred.held_by, barred.until)


class BudgetLimit:
    def __init__(
        self,
        store: RunStore,
        held: HeldRuns,
        *,
        admission: BudgetAdmission | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Without `admission` every run is admitted: a scheduler claims none."""
        self._held = held
        self._admission = admission
        self._budgets = BudgetStore(store.database)
        self._windows = WindowStore(store.database)
        self._clock = clock
        self._known: Mapping[LimitName, StoredBudget] = {}
        self._free: Collection[LimitName] = ()

    async def admit(self, claim: Claim) -> Hold | Refused | None:
        return None if self._admission is None else await self._admission.admit(claim)

    async def refresh(self, limits: Sequence[LimitName]) -> None:
        """Reads all budgets and their windows together.

        `has_room` and `release` use the values of the last refresh.
        """
        budgets = await self._budgets.list() if limits else []
        self._known = {_limit_of(entry): entry for entry in budgets}
        known = [self._known[limit] for limit in limits if limit in self._known]
        shared = [
            effective_budget(stored, stored.budget.app_id, set())
            for stored in known
            if not stored.budget.is_for_each_app
        ]
        self._free = {LimitName(LimitKind.BUDGET, entry.budget.id) for entry in await self._with_room(shared)}

    async def has_room(self, limit: LimitName) -> int:
        """Returns the room under this budget.

        A budget for each app always has room, as an app may have some. A deleted budget holds no run.
        """
        return UNLIMITED if self._is_for_each_app(limit) or limit not in self._known or limit in self._free else 0

    async def release(self, limit: LimitName, *, count: int, after: str = "") -> Released:
        if not self._is_for_each_app(limit):
            shared, released = await self._release(limit, None, count)
            return Released(shared, after, released)
        apps = rotate_after(await self._held.apps_of(limit), after)[:MAX_APPS]
        ids = {entry.budget.id for entry in self._known.values()}
        run_ids: list[str] = []
        total = 0
        for entry in await self._with_room([effective_budget(self._known[limit], app_id, ids) for app_id in apps]):
            if total >= count:
                break
            of_app, released = await self._release(limit, entry.app_id, count - total)
            run_ids += of_app
            total += released
            after = entry.app_id or ""
        return Released(run_ids, after, total)

    def _is_for_each_app(self, limit: LimitName) -> bool:
        return limit in self._known and self._known[limit].budget.is_for_each_app

    async def _with_room(self, budgets: Sequence[EffectiveBudget]) -> list[EffectiveBudget]:
        now = self._clock()
        windows = {effective: effective.window_at(now) for effective in budgets if effective.is_enforced}
        used = await self._windows.read_usage([*windows.values()]) if windows else {}
        return [
            effective
            for effective in budgets
            if effective not in windows or used[windows[effective].id].has_room(effective.budget.limit)
        ]

    async def _release(self, limit: LimitName, app_id: str | None, count: int) -> tuple[Sequence[str], int]:
        count = min(count, MAX_RELEASED_AT_ONCE - await self._held.count_released_by(limit, app_id))
        if count <= 0:
            return (), 0
        run_ids = await self._held.most_urgent(limit, app_id, count=count)
        released = await self._held.release(limit, run_ids)
        return (run_ids if released else ()), released


def _limit_of(stored: StoredBudget) -> LimitName:
    return LimitName(LimitKind.BUDGET, stored.budget.id)
