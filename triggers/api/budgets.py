"""The routes of budgets: what may be spent and how it stands, as `unattended budgets` tells it.

A key of one app reads what concerns that app. Of a budget that several apps share it learns whether it is spent, and
no amounts: they would tell it what the others use.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from accounting.budgets.budget import Budget, UnfitBudgetError, checked_budget
from accounting.budgets.standing import Standing, standings
from accounting.budgets.store import Budgets, KeptBudget
from triggers.api.access import Caller, Reader, Writer
from triggers.api.answers import json_answer
from triggers.api.budget_models import BudgetOrder, BudgetPage, BudgetShown
from triggers.api.field_types import Name
from triggers.api.openapi import answers
from triggers.api.paging import Page, page_answer
from triggers.api.problems import invalid_fields
from triggers.api.routes import StrictRoute
from triggers.gateway.problems import ProblemError, problem_response
from triggers.role import TriggerGround

MOST_STANDINGS = 1_000
_AMOUNTS = ("spent", "reserved", "left", "share", "rejections", "rejections_total")
_OF_A_WINDOW = ("for_app_id", "window_start", "window_end", *_AMOUNTS, "exhausted", "exhausted_since")

_LEADING_ON = {
    "links": {
        each: {"operationId": each, "parameters": {"budget_id": "$response.body#/budget_id"}}
        for each in ("show_budget", "remove_budget")
    }
}

BudgetId = Annotated[str, Path(description="As the list tells it.", examples=["app:acme/day/usd"])]
OfApp = Annotated[Name | None, Query(description="Only those that this app's runs must fit in.")]


async def _operator(caller: Writer) -> Caller:
    if caller.scope is not None:
        raise ProblemError(403, f"budgets are set with a key of all apps; this one is for the app {caller.scope} alone")
    return caller


Operator = Annotated[Caller, Depends(_operator)]


def budget_routes(ground: TriggerGround) -> APIRouter:
    router = APIRouter(tags=["Budgets"], route_class=StrictRoute)
    _add_reading(router, ground)
    _add_changing(router, ground)
    return router


def _add_reading(router: APIRouter, ground: TriggerGround) -> None:
    @router.get(
        "/budgets",
        response_model=BudgetPage,
        summary="List budgets",
        operation_id="list_budgets",
        responses=answers(403, 404),
    )
    async def list_budgets(caller: Reader, paging: Page, app_id: OfApp = None) -> Response:
        """With what is spent in the window that goes on. A budget of each app (`*`) is told once for each app that has
        spent of it."""
        rows = [told_to(caller, each) for each in await standings(ground.database, caller.within(app_id))]
        after = paging.behind(str, str)
        placed = sorted(((_place(row), row) for row in rows), key=lambda each: each[0])
        behind = [row for place, row in placed if after is None or place > after]
        return await page_answer(paging, _each(behind), _place, dict)

    @router.get(
        "/budgets/{budget_id:path}",
        response_model=BudgetShown,
        summary="Show a budget",
        operation_id="show_budget",
        responses=answers(404),
    )
    async def show_budget(caller: Reader, budget_id: BudgetId) -> Response:
        """What it limits, what happens when it is spent, and how it stands for each app it is of."""
        kept = await Budgets(ground.database).find(budget_id)
        if kept is None or not _concerns(kept.budget, caller.scope):
            raise _no_such_budget()
        return json_answer(await _shown(ground, kept, caller))


def _add_changing(router: APIRouter, ground: TriggerGround) -> None:
    @router.put(
        "/budgets",
        response_model=BudgetShown,
        summary="Set a budget",
        operation_id="set_budget",
        responses={
            200: _LEADING_ON,
            201: {"model": BudgetShown, "description": "A new budget", **_LEADING_ON},
            **answers(403),
        },
    )
    async def set_budget(caller: Operator, order: BudgetOrder) -> Response:
        """Makes it, or replaces the one of the same app, workflow, window and unit as a whole; what is spent in the
        window stays spent. Workers heed it within seconds. Needs a key of all apps."""
        done = await Budgets(ground.database).set(checked_budget(**order.model_dump()), by=caller.name)
        address = f"/v1/budgets/{quote(done.kept.budget.id, safe='/:*')}"
        headers = {"location": address} if done.how == "created" else {}
        return json_answer(await _shown(ground, done.kept, caller), 201 if headers else 200, headers)

    @router.delete(
        "/budgets/{budget_id:path}",
        status_code=204,
        summary="Remove a budget",
        operation_id="remove_budget",
        responses=answers(403, 404),
    )
    async def remove_budget(_caller: Operator, budget_id: BudgetId) -> Response:
        """Runs that it holds go on, triggers it has paused are resumed. Needs a key of all apps."""
        if not await Budgets(ground.database).remove(budget_id):
            raise _no_such_budget()
        return Response(status_code=204)


async def _shown(ground: TriggerGround, kept: KeptBudget, caller: Caller) -> Mapping[str, Any]:
    found = [each for each in await standings(ground.database, caller.scope) if each.budget.id == kept.budget.id]
    fullest = sorted(found, key=lambda each: -each.share)[:MOST_STANDINGS]
    rows = [told_to(caller, each) for each in fullest]
    return {**kept.as_json(), "standings": [{name: row[name] for name in _OF_A_WINDOW} for row in rows]}


def told_to(caller: Caller, standing: Standing) -> dict[str, Any]:
    told = standing.as_json()
    is_shared = caller.scope is not None and standing.budget.app_id is None
    return told | dict.fromkeys(_AMOUNTS) if is_shared else told


def _concerns(budget: Budget, app_id: str | None) -> bool:
    return app_id is None or budget.is_for_each_app or budget.app_id in (None, app_id)


def _place(row: Mapping[str, Any]) -> list[str | int]:
    return [row["budget_id"], row["for_app_id"] or ""]


async def _each(rows: Sequence[Mapping[str, Any]]) -> AsyncIterator[Mapping[str, Any]]:
    for row in rows:
        yield row


def _no_such_budget() -> ProblemError:
    """One of another app alone is as unknown as one that never was."""
    return ProblemError(404, "there is no such budget")


async def _on_unfit(_request: Request, error: Exception) -> Response:
    assert isinstance(error, UnfitBudgetError)  # noqa: S101 -- FastAPI types every handler as one of Exception
    return problem_response(invalid_fields(error.problems))


BUDGET_HANDLERS: dict[Any, Any] = {UnfitBudgetError: _on_unfit}
