"""Rows of budgets, without amounts that the visitor may not see."""

from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from accounting.budgets.budget_status import read_statuses
from ops.presenters.budget_text import WARNING_SHARE, describe_consequence, describe_limit
from triggers.api.budget_routes import visible_row
from triggers.api.caller_access import Caller

MAX_ROWS = 200

Row = dict[str, Any]


async def budget_rows(database: AsyncDatabase[dict[str, Any]], caller: Caller) -> list[Row]:
    """Return the fullest first; a visitor of one app sees no amounts of a budget that several apps share."""
    statuses = await read_statuses(database, caller.scope)
    rows = [
        {
            **(row := visible_row(caller, status)),
            "limit_text": describe_limit(status.budget),
            "consequence": describe_consequence(status.budget),
            "kind": "bad" if status.is_exhausted else "warn" if (row["share"] or 0.0) >= WARNING_SHARE else "good",
        }
        for status in statuses
    ]
    # Sort by visible values only: the order would reveal which of two hidden budgets is fuller.
    rows.sort(key=lambda row: -(row["share"] or 0.0) if row["window_start"] else 1.0)
    return rows[:MAX_ROWS]
