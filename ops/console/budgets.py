"""Budgets as rows: what is spent of each, as far as the visitor may know it."""

from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from accounting.budgets.standing import standings
from ops.cli.budgets.words import consequence_words, limit_words
from triggers.api.access import Caller
from triggers.api.budgets import told_to

WARNS_AT = 0.8
MOST_SHOWN = 200

Row = dict[str, Any]


async def budget_rows(database: AsyncDatabase[dict[str, Any]], caller: Caller) -> list[Row]:
    """The fullest first. Of one that several apps share, a visitor of one app learns no amounts."""
    found = await standings(database, caller.scope)
    rows = [
        {
            **(told := told_to(caller, each)),
            "words": limit_words(each.budget),
            "consequence": consequence_words(each.budget),
            "kind": "bad" if each.exhausted else "warn" if (told["share"] or 0.0) >= WARNS_AT else "good",
        }
        for each in found
    ]
    # By what is told alone: also their order would say which of two is the fuller one.
    rows.sort(key=lambda row: -(row["share"] or 0.0) if row["window_start"] else 1.0)
    return rows[:MOST_SHOWN]
