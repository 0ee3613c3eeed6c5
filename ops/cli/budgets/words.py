"""A budget in words: whom it limits to what, and what happens when it is spent."""

from collections.abc import Mapping

from accounting.budgets.budget import NANO, Budget, amount_in_words
from ops.cli.amounts import usd_text
from ops.cli.verdicts import printable

_PER: Mapping[str, str] = {"hour": "an hour", "day": "a day", "month": "a month", "total": "in all", "run": "a run"}
_NEW_RUNS: Mapping[str, str] = {"hold": "new runs wait", "refuse": "new runs fail at their start"}
_RUNNING: Mapping[str, str] = {"stop": "running ones stop", "hold": "running ones wait after their turn"}


def limit_words(budget: Budget) -> str:
    """`at most USD 10.00 a day for acme`."""
    whom = "each app" if budget.is_for_each_app else "all apps together"
    if budget.app_id is not None and not budget.is_for_each_app:
        whom = printable(budget.app_id)
    workflow = "" if budget.workflow is None else f" in {printable(budget.workflow)}"
    zone = f", in the time of {budget.timezone}" if budget.window in ("hour", "day", "month") else ""
    return f"at most {amount_in_words(budget.unit, budget.limit)} {_PER[budget.window]} for {whom}{workflow}{zone}"


def consequence_words(budget: Budget) -> str:
    if budget.soft:
        return "when it is spent: a warning, nothing stops"
    if budget.window == "run":
        return "when it is spent: the run stops"
    paused = ", its triggers pause" if budget.pause_triggers else ""
    return f"when it is spent: {_NEW_RUNS[budget.new_runs]}, {_RUNNING[budget.running]}{paused}"


def usd_beside(amount: int, limit: int) -> str:
    """With as many digits as make sense beside the limit."""
    return usd_text(amount / NANO, 2 if limit >= NANO else 4 if limit >= NANO // 100 else 6)
