"""Budgets, as operators look at them: how each stands, and what each has kept from being made, for all time."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote

from pymongo.asynchronous.database import AsyncDatabase

from accounting.budgets.standing import Standing, standings
from accounting.budgets.window_store import COLLECTION, ever_id

Document = dict[str, Any]


class Scope(NamedTuple):
    """Whom a budget limits, in what window and unit; None: all of them together."""

    app_id: str | None
    workflow: str | None
    window: str
    unit: str


@dataclass(frozen=True, slots=True)
class BudgetLook:
    standings: Sequence[Standing] = ()
    rejections: Mapping[Scope, int] = field(default_factory=dict)


async def look_at_budgets(database: AsyncDatabase[Document]) -> BudgetLook:
    """Rejections also of windows that are over and of budgets that were removed: they stay counted. A budget for each
    app of which nobody has spent yet is no budget of all of them together, and has nothing to show."""
    every = await standings(database)
    found = [each for each in every if each.app_id is not None or not each.budget.is_for_each_app]
    rejections = Counter({_scope_of(each): 0 for each in found})
    ever = f"^{ever_id('', None)[:-1]}"
    async for counted in database[COLLECTION].find({"_id": {"$regex": ever}}, {"rejections": 1}):
        rejections[scope_of_ever(counted["_id"])] += counted["rejections"]
    return BudgetLook(found, rejections)


def _scope_of(standing: Standing) -> Scope:
    budget = standing.budget
    return Scope(standing.app_id, budget.workflow, budget.window, budget.unit)


def scope_of_ever(document_id: str) -> Scope:
    """Out of the id under which a budget is counted for ever, which names it and an app."""
    _, budget_id, app_id = document_id.split(" ", 2)
    *scope, window, unit = budget_id.split("/")
    named = dict(part.split(":", 1) for part in scope)
    workflow = named.get("workflow")
    return Scope(app_id or None, None if workflow is None else unquote(workflow), window, unit)
