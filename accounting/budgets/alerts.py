"""Telling: what is said of a budget to people: that it is nearly spent, or spent, and until when."""

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
    """As runs say it, which their app may read: of a budget that several apps share, not what the others have spent."""
    budget = window.budget
    which = "all" if budget.app_id is None else format_amount(budget.unit, spent)
    amounts = f"{which} of {format_amount(budget.unit, budget.limit)}"
    whose = f" for {window.app_id}" if budget.is_for_each_app else ""
    return f"the budget {budget.id} is spent{whose}: {amounts}, {describe_until(budget, window.span.end)}"


def describe_until(budget: Budget, end: datetime | None) -> str:
    """Until when it is so."""
    if end is None:
        return "until its limit is raised"
    return f"until {end.astimezone(ZoneInfo(budget.timezone)):%Y-%m-%d %H:%M} {budget.timezone}"


class BudgetAlerts:
    """Said once for a window and its limit, by whichever process sees it first."""

    def __init__(self, windows: WindowStore) -> None:
        self._windows = windows
        self._claimed: set[tuple[str, str, int]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def check(self, window: BudgetWindow, spent: int) -> None:
        limit = window.budget.limit
        for what in thresholds_reached(spent, limit):
            key = (window.id, what, limit)
            if key in self._claimed:
                continue
            if len(self._claimed) >= MAX_CLAIMED:
                self._claimed.clear()  # the store knows what was said
            self._claimed.add(key)
            saying = asyncio.create_task(self._claim_and_log(window, what, spent))
            self._tasks.add(saying)
            saying.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        await asyncio.gather(*self._tasks)

    async def _claim_and_log(self, window: BudgetWindow, event: str, spent: int) -> None:
        try:
            is_first = await self._windows.claim_alert(window, event)
        except PyMongoError:
            self._claimed.discard((window.id, event, window.budget.limit))  # with the next answer, then
            return
        if is_first:
            log_alert(event, window.budget, app_id=window.app_id, spent=spent, until=window.span.end)


def thresholds_reached(spent: int, limit: int) -> list[str]:
    return [what for what, share in THRESHOLDS.items() if spent >= share * limit]


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
