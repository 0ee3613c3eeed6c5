"""Effective budgets: the budgets in which a call or a run must find room."""

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence, Set
from contextvars import Context
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any
from urllib.parse import quote

import pymongo
from pymongo.errors import PyMongoError

from accounting.budgets.budget import Budget
from accounting.budgets.budget_store import BudgetStore, StoredBudget
from accounting.budgets.window_calendar import WindowSpan, window_span

log = logging.getLogger(__name__)

REFRESH_INTERVAL_S = 2.0
REFRESH_TIMEOUT_S = 5.0
REFRESH_WAIT_S = 1.0  # by callers that have budgets from an earlier read
MAX_CACHED_SCOPES = 10_000


@dataclass(frozen=True)
class BudgetWindow:
    """One window of a budget, and of one app if the budget is for each app on its own.

    Each has one document. `has_alerts`: people are notified when it is nearly and fully spent.
    """

    stored: StoredBudget
    app_id: str | None
    span: WindowSpan
    has_alerts: bool = True

    @property
    def budget(self) -> Budget:
        return self.stored.budget

    @cached_property
    def id(self) -> str:
        app = "" if self.app_id is None else quote(self.app_id, safe="")
        begun = int(self.stored.since.timestamp() * 1000)
        return f"{self.budget.id} {app} {self.span.start:%Y-%m-%dT%H:%M:%SZ} {begun}"

    @property
    def has_earlier_spending(self) -> bool:
        """Checks whether calls may have spent here before the first reservation."""
        return self.span.start < self.stored.since

    def is_over(self, now: datetime) -> bool:
        return self.span.end is not None and now >= self.span.end

    def labels(self) -> dict[str, Any]:
        """Fields that describe the window in its document."""
        return {
            "budget_id": self.budget.id,
            "app_id": self.app_id,
            "workflow": self.budget.workflow,
            "unit": self.budget.unit,
            "start": self.span.start,
            "end": self.span.end,
            "since": self.stored.since,
        }


@dataclass(frozen=True)
class EffectiveBudget:
    """A budget as it applies to the runs of an app.

    `is_replaced`: the own budget of the app goes before it; this one only counts.
    """

    stored: StoredBudget
    app_id: str | None
    is_replaced: bool = False

    @property
    def budget(self) -> Budget:
        return self.stored.budget

    @property
    def is_enforced(self) -> bool:
        """Checks whether it stops runs and calls, and does not only count and warn."""
        return not (self.budget.soft or self.is_replaced)

    @property
    def limit(self) -> int | None:
        return self.budget.limit if self.is_enforced else None

    def window_at(self, now: datetime) -> BudgetWindow:
        budget = self.budget
        span = window_span(budget.window, budget.timezone, now)
        return BudgetWindow(self.stored, self.app_id, span, has_alerts=not self.is_replaced)


def effective_budgets(
    stored_budgets: Iterable[StoredBudget], app_id: str, workflow: str
) -> tuple[EffectiveBudget, ...]:
    """Lists the matching budgets in a fixed order.

    Because of the order, concurrent calls that wait for room cannot deadlock. The own budget of an app goes before the
    one for each app with the same workflow, window and unit. The latter stops nothing then but still counts, so that it
    has the sums if the other one is removed.
    """
    matching = {stored.budget.id: stored for stored in stored_budgets if stored.budget.matches(app_id, workflow)}
    return tuple(effective_budget(stored, app_id, matching.keys()) for _, stored in sorted(matching.items()))


def effective_budget(stored: StoredBudget, app_id: str | None, budget_ids: Set[str]) -> EffectiveBudget:
    """Applies a budget to an app. `budget_ids` are the ids of all budgets."""
    budget = stored.budget
    if not budget.is_for_each_app:
        return EffectiveBudget(stored, budget.app_id)
    own = replace(budget, app_id=app_id).id
    return EffectiveBudget(stored, app_id, is_replaced=own != budget.id and own in budget_ids)


class BudgetCache:
    def __init__(
        self,
        budgets: BudgetStore,
        *,
        refresh_interval_s: float = REFRESH_INTERVAL_S,
        refresh_timeout_s: float = REFRESH_TIMEOUT_S,
    ) -> None:
        self._budgets = budgets
        self._refresh_interval_s = refresh_interval_s
        self._refresh_timeout_s = refresh_timeout_s
        self._known: Sequence[StoredBudget] | None = None
        self._read_at = float("-inf")
        self._read_task: asyncio.Task[None] | None = None
        self._by_scope: dict[tuple[str, str], tuple[EffectiveBudget, ...]] = {}
        self._is_away = False

    async def effective_budgets(self, app_id: str, workflow: str) -> tuple[EffectiveBudget, ...]:
        """Returns the budgets of a run, from the cache.

        Raises PyMongoError if none were ever read and the store is unavailable.
        """
        if time.monotonic() - self._read_at >= self._refresh_interval_s:
            await self._refresh()
        if not self._known:
            return ()
        budgets = self._by_scope.get((app_id, workflow))
        if budgets is None:
            if len(self._by_scope) >= MAX_CACHED_SCOPES:
                self._by_scope.clear()
            budgets = self._by_scope[app_id, workflow] = effective_budgets(self._known, app_id, workflow)
        return budgets

    async def _refresh(self) -> None:
        if self._read_task is None:
            self._read_task = asyncio.get_running_loop().create_task(self._read(), context=Context())
            # Retrieves the error: all callers may be cancelled by then, and asyncio would report it as never retrieved.
            self._read_task.add_done_callback(lambda done: done.cancelled() or done.exception())
        read = asyncio.shield(self._read_task)
        if self._known is None:
            await read
            return
        try:
            async with asyncio.timeout(REFRESH_WAIT_S):
                await read
        except (PyMongoError, TimeoutError) as error:
            if not self._is_away:
                log.warning("budgets_not_read", extra={"error": type(error).__name__})
            self._is_away = True

    async def _read(self) -> None:
        try:
            with pymongo.timeout(self._refresh_timeout_s):
                budgets = await self._budgets.list()
            if budgets != self._known:
                self._known = budgets
                self._by_scope.clear()
            self._is_away = False
        finally:
            self._read_at = time.monotonic()
            self._read_task = None
