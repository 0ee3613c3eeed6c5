"""Budgets as rows: what is spent of each, as far as the visitor may know it."""

from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from accounting.budgets.budget_status import read_statuses
from ops.presenters.budget_text import describe_consequence, describe_limit
from triggers.api.access import Caller
from triggers.api.budget_routes import visible_row

WARNING_SHARE = 0.8
MAX_ROWS = 200

Row = dict[str, Any]


async def budget_rows(database: AsyncDatabase[dict[str, Any]], caller: Caller) -> list[Row]:
    """The fullest first. Of one that several apps share, a visitor of one app learns no amounts."""
    found = await read_statuses(database, caller.scope)
    rows = [
        {
            **(told := visible_row(caller, each)),
            "words": describe_limit(each.budget),
            "consequence": describe_consequence(each.budget),
            "kind": "bad" if each.is_exhausted else "warn" if (told["share"] or 0.0) >= WARNING_SHARE else "good",
        }
        for each in found
    ]
    # By what is told alone: also their order would say which of two is the fuller one.
    rows.sort(key=lambda row: -(row["share"] or 0.0) if row["window_start"] else 1.0)
    return rows[:MAX_ROWS]
