"""Budget alerts: log lines and texts when a budget is nearly or fully spent."""

import asyncio
import logging
from datetime import datetime
from zoneinfo import ZoneInfo

from pymongo.errors import PyMongoError

from accounting.budgets.budget import Budget, format_amount
from accounting.budgets.effective_budgets import BudgetWindow
from accounting.budgets.window_store import WindowStore

log = logging.getLogger(__name__)

THRESHOLDS = {"budget_warned": 0.8, "budget_exhausted": 1.0}
MAX_CLAIMED = 10_000


def describe_spent(window: BudgetWindow, spent: int) -> str:
    """Describes a spent budget in the reason of a run, which its app may read.

    For a budget that several apps share it hides how much they have spent.
    """
    budget = window.budget
    which = "all" if budget.app_id is None else format_amount(budget.unit, spent)
    amounts = f"{which} of {format_amount(budget.unit, budget.limit)}"
    whose = f" for {window.app_id}" if budget.is_for_each_app else ""
    return f"the budget {budget.id} is spent{whose}: {amounts}, {describe_until(budget, window.span.end)}"


def describe_until(budget: Budget, end: datetime | None) -> str:
    """Describes when the window ends, in the time zone of the budget."""
    if end is None:
        return "until its limit is raised"
    return f"until {end.astimezone(ZoneInfo(budget.timezone)):%Y-%m-%d %H:%M} {budget.timezone}"


class BudgetAlerts:
    """Logs each threshold once per window and limit, across all processes."""

    def __init__(self, windows: WindowStore) -> None:
        self._windows = windows
        self._claimed: set[tuple[str, str, int]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def check(self, window: BudgetWindow, spent: int) -> None:
        limit = window.budget.limit
        for event in thresholds_reached(spent, limit):
            key = (window.id, event, limit)
            if key in self._claimed:
                continue
            if len(self._claimed) >= MAX_CLAIMED:
                self._claimed.clear()  # the store still has the claims
            self._claimed.add(key)
            task = asyncio.create_task(self._claim_and_log(window, event, spent))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        await asyncio.gather(*self._tasks)

    async def _claim_and_log(self, window: BudgetWindow, event: str, spent: int) -> None:
        try:
            is_first = await self._windows.claim_alert(window, event)
        except PyMongoError:
            self._claimed.discard((window.id, event, window.budget.limit))  # the next check tries again
            return
        if is_first:
            log_alert(event, window.budget, app_id=window.app_id, spent=spent, until=window.span.end)


def thresholds_reached(spent: int, limit: int) -> list[str]:
    return [event for event, share in THRESHOLDS.items() if spent >= share * limit]


def log_alert(event: str, budget: Budget, *, app_id: str | None, spent: int, until: datetime | None = None) -> None:
    log.warning(
        event,
        extra={
            "budget": budget.id,
            "app_id": app_id,
            "spent": format_amount(budget.unit, spent),
            "limit": format_amount(budget.unit, budget.limit),
            "until": None if until is None else until.isoformat(),
        },
    )
