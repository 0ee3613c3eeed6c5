"""Budgets, as operators look at them: how each stands, and what each has kept from being made, for all time."""

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
    """Whom a budget limits, in what window and unit; None: all of them together."""

    app_id: str | None
    workflow: str | None
    window: str
    unit: str


@dataclass(frozen=True, slots=True)
class BudgetState:
    standings: Sequence[BudgetStatus] = ()
    rejections: Mapping[BudgetScope, int] = field(default_factory=dict)


async def read_budget_state(database: AsyncDatabase[Document]) -> BudgetState:
    """Rejections also of windows that are over and of budgets that were removed: they stay counted. A budget for each
    app of which nobody has spent yet is no budget of all of them together, and has nothing to show."""
    every = await read_statuses(database)
    found = [each for each in every if each.app_id is not None or not each.budget.is_for_each_app]
    rejections = Counter({_budget_scope(each): 0 for each in found})
    ever = f"^{all_time_id('', None)[:-1]}"
    async for counted in database[COLLECTION].find({"_id": {"$regex": ever}}, {"rejections": 1}):
        rejections[parse_all_time_scope(counted["_id"])] += counted["rejections"]
    return BudgetState(found, rejections)


def _budget_scope(standing: BudgetStatus) -> BudgetScope:
    budget = standing.budget
    return BudgetScope(standing.app_id, budget.workflow, budget.window, budget.unit)


def parse_all_time_scope(document_id: str) -> BudgetScope:
    """Out of the id under which a budget is counted for ever, which names it and an app."""
    _, budget_id, app_id = document_id.split(" ", 2)
    *scope, window, unit = budget_id.split("/")
    named = dict(part.split(":", 1) for part in scope)
    workflow = named.get("workflow")
    return BudgetScope(app_id or None, None if workflow is None else unquote(workflow), window, unit)
