"""Budgets for the exporter: the status of each, and all rejections so far."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote

from pymongo.asynchronous.database import AsyncDatabase

from accounting.budgets.budget_status import BudgetStatus, read_statuses
from accounting.budgets.window_store import COLLECTION, all_time_id

Document = dict[str, Any]


class BudgetScope(NamedTuple):
    """What a budget limits; None stands for all apps or workflows together."""

    app_id: str | None
    workflow: str | None
    window: str
    unit: str


@dataclass(frozen=True, slots=True)
class BudgetCounts:
    statuses: Sequence[BudgetStatus] = ()
    rejections: Mapping[BudgetScope, int] = field(default_factory=dict)


async def read_budget_counts(database: AsyncDatabase[Document]) -> BudgetCounts:
    """Read all budgets; rejections include those of past windows and of removed budgets.

    A budget of each app that no app has spent from yet has no status to show.
    """
    statuses = [
        status
        for status in await read_statuses(database)
        if status.app_id is not None or not status.budget.is_for_each_app
    ]
    rejections = Counter({_budget_scope(status): 0 for status in statuses})
    all_time_ids = f"^{all_time_id('', None)[:-1]}"
    async for document in database[COLLECTION].find({"_id": {"$regex": all_time_ids}}, {"rejections": 1}):
        rejections[parse_all_time_scope(document["_id"])] += document["rejections"]
    return BudgetCounts(statuses, rejections)


def _budget_scope(status: BudgetStatus) -> BudgetScope:
    budget = status.budget
    return BudgetScope(status.app_id, budget.workflow, budget.window, budget.unit)


def parse_all_time_scope(document_id: str) -> BudgetScope:
    """Parse the id of an all-time document, which holds the budget's id and an app."""
    _, budget_id, app_id = document_id.split(" ", 2)
    *scope_parts, window, unit = budget_id.split("/")
    scope = dict(part.split(":", 1) for part in scope_parts)
    workflow = scope.get("workflow")
    return BudgetScope(app_id or None, None if workflow is None else unquote(workflow), window, unit)
