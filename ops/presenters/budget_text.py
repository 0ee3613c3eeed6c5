"""A budget as text: its limit, and the consequence when it is spent."""

from collections.abc import Mapping

from accounting.budgets.budget import Budget, format_amount
from accounting.usage import NANO_PER_USD
from ops.presenters.amounts import format_usd
from ops.presenters.printable_text import to_printable

WARNING_SHARE = 0.8  # tables and pages mark a budget as nearly spent from here on

_WINDOW_TEXT: Mapping[str, str] = {
    "hour": "an hour",
    "day": "a day",
    "month": "a month",
    "total": "in all",
    "run": "a run",
}
_NEW_RUNS_TEXT: Mapping[str, str] = {"hold": "new runs wait", "refuse": "new runs fail at their start"}
_RUNNING_TEXT: Mapping[str, str] = {"stop": "running ones stop", "hold": "running ones wait after their turn"}


def describe_limit(budget: Budget) -> str:
    """`at most USD 10.00 a day for acme (UTC)`."""
    apps = "each app" if budget.is_for_each_app else "all apps together"
    if budget.app_id is not None and not budget.is_for_each_app:
        apps = to_printable(budget.app_id)
    workflow = "" if budget.workflow is None else f" in {to_printable(budget.workflow)}"
    zone = f" ({budget.timezone})" if budget.window in ("hour", "day", "month") else ""
    return (
        f"at most {format_amount(budget.unit, budget.limit)} {_WINDOW_TEXT[budget.window]} for {apps}{workflow}{zone}"
    )


def describe_consequence(budget: Budget) -> str:
    if budget.soft:
        return "when spent: warn only"
    if budget.window == "run":
        return "when spent: the run stops"
    paused = ", triggers pause" if budget.pause_triggers else ""
    return f"when spent: {_NEW_RUNS_TEXT[budget.new_runs]}, {_RUNNING_TEXT[budget.running]}{paused}"


def format_usd_for_limit(amount: int, limit: int) -> str:
    """Choose the number of digits by the size of the limit."""
    return format_usd(amount / NANO_PER_USD, 2 if limit >= NANO_PER_USD else 4 if limit >= NANO_PER_USD // 100 else 6)
