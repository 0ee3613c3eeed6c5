"""Places: in which windows of which budgets a call or a run must find room."""

from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any
from urllib.parse import quote

from accounting.budgets.budget import Budget
from accounting.budgets.store import StoredBudget
from accounting.budgets.windows import WindowSpan, window_span


@dataclass(frozen=True)
class BudgetWindow:
    """One window of a budget, for one app where it is for each app on its own. What it counts has one document.
    `alerts`: people hear when it is nearly spent, and spent."""

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
        """Whether something may have been spent in this window before anybody reserved in it."""
        return self.span.start < self.stored.since

    def is_over(self, now: datetime) -> bool:
        return self.span.end is not None and now >= self.span.end

    def labels(self) -> dict[str, Any]:
        """What the document says of itself, for those who look at many."""
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
    """A budget, as it applies to the runs of an app. `is_replaced`: the app's own goes before it; it counts."""

    stored: StoredBudget
    app_id: str | None
    is_replaced: bool = False

    @property
    def budget(self) -> Budget:
        return self.stored.budget

    @property
    def is_enforced(self) -> bool:
        """It stops them, and does not only count and warn."""
        return not (self.budget.soft or self.is_replaced)

    @property
    def limit(self) -> int | None:
        return self.budget.limit if self.is_enforced else None

    def window_at(self, now: datetime) -> BudgetWindow:
        budget = self.budget
        span = window_span(budget.window, budget.timezone, now)
        return BudgetWindow(self.stored, self.app_id, span, has_alerts=not self.is_replaced)


def effective_budgets(stored_budgets: Iterable[StoredBudget], app_id: str, workflow: str) -> tuple[EffectiveBudget, ...]:
    """Those that match, in one order for everybody: who waits for room in one has what it got in those before it.

    An app's own budget goes before the one for each app with the same workflow, window and unit: that one still counts,
    so that it knows what was spent should the other be removed, and stops nothing.
    """
    matching = {kept.budget.id: kept for kept in stored_budgets if kept.budget.matches(app_id, workflow)}
    return tuple(effective_budget(kept, app_id, matching.keys()) for _, kept in sorted(matching.items()))


def effective_budget(stored: StoredBudget, app_id: str | None, budget_ids: Set[str]) -> EffectiveBudget:
    """One of them, to an app that it is for; `known` are the ids of all budgets there are."""
    budget = stored.budget
    if not budget.is_for_each_app:
        return EffectiveBudget(stored, budget.app_id)
    own = replace(budget, app_id=app_id).id
    return EffectiveBudget(stored, app_id, is_replaced=own != budget.id and own in budget_ids)
