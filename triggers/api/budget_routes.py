"""The routes of budgets: what may be spent and how it stands, as `unattended budgets` tells it.

A key of one app reads what concerns that app. Of a budget that several apps share it learns whether it is spent, and
no amounts: they would tell it what the others use.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from accounting.budgets.budget import Budget, InvalidBudgetError, parse_budget
from accounting.budgets.budget_status import BudgetStatus, read_statuses
from accounting.budgets.budget_store import BudgetStore, StoredBudget
from triggers.api.access import Caller, Reader, Writer
from triggers.api.api_problems import invalid_fields
from triggers.api.budget_models import BudgetDetails, BudgetPage, BudgetRequest
from triggers.api.field_types import Name
from triggers.api.json_responses import api_response
from triggers.api.openapi import problem_responses
from triggers.api.paging import PagingParams, page_response
from triggers.api.strict_route import StrictRoute
from triggers.gateway.http_problems import ProblemError, problem_response
from triggers.role_context import RoleContext

MAX_WINDOWS_SHOWN = 1_000
_AMOUNT_FIELDS = ("spent", "reserved", "left", "share", "rejections", "rejections_total")
_WINDOW_FIELDS = ("for_app_id", "window_start", "window_end", *_AMOUNT_FIELDS, "exhausted", "exhausted_since")

_BUDGET_LINKS = {
    "links": {
        each: {"operationId": each, "parameters": {"budget_id": "$response.body#/budget_id"}}
        for each in ("show_budget", "remove_budget")
    }
}

BudgetId = Annotated[str, Path(description="As the list tells it.", examples=["app:acme/day/usd"])]
AppFilter = Annotated[Name | None, Query(description="Only those that this app's runs must fit in.")]


async def _require_operator(caller: Writer) -> Caller:
    if caller.scope is not None:
        raise ProblemError(403, f"budgets are set with a key of all apps; this one is for the app {caller.scope} alone")
    return caller


Operator = Annotated[Caller, Depends(_require_operator)]


def budget_routes(context: RoleContext) -> APIRouter:
    router = APIRouter(tags=["Budgets"], route_class=StrictRoute)
    _add_read_routes(router, context)
    _add_write_routes(router, context)
    return router


def _add_read_routes(router: APIRouter, context: RoleContext) -> None:
    @router.get(
        "/budgets",
        response_model=BudgetPage,
        summary="List budgets",
        operation_id="list_budgets",
        responses=problem_responses(403, 404),
    )
    async def list_budgets(caller: Reader, paging: PagingParams, app_id: AppFilter = None) -> Response:
        """With what is spent in the window that goes on. A budget of each app (`*`) is told once for each app that has
        spent of it."""
        rows = [
            visible_row(caller, each)
            for each in await read_statuses(context.database, caller.resolve_optional_app(app_id))
        ]
        after = paging.start_after(str, str)
        placed = sorted(((_position(row), row) for row in rows), key=lambda each: each[0])
        behind = [row for place, row in placed if after is None or place > after]
        return await page_response(paging, _iter_rows(behind), _position, dict)

    @router.get(
        "/budgets/{budget_id:path}",
        response_model=BudgetDetails,
        summary="Show a budget",
        operation_id="show_budget",
        responses=problem_responses(404),
    )
    async def show_budget(caller: Reader, budget_id: BudgetId) -> Response:
        """What it limits, what happens when it is spent, and how it stands for each app it is of."""
        kept = await BudgetStore(context.database).find(budget_id)
        if kept is None or not _applies_to(kept.budget, caller.scope):
            raise _budget_not_found()
        return api_response(await _budget_details(context, kept, caller))


def _add_write_routes(router: APIRouter, context: RoleContext) -> None:
    @router.put(
        "/budgets",
        response_model=BudgetDetails,
        summary="Set a budget",
        operation_id="set_budget",
        responses={
            200: _BUDGET_LINKS,
            201: {"model": BudgetDetails, "description": "A new budget", **_BUDGET_LINKS},
            **problem_responses(403),
        },
    )
    async def set_budget(caller: Operator, body: BudgetRequest) -> Response:
        """Makes it, or replaces the one of the same app, workflow, window and unit as a whole; what is spent in the
        window stays spent. Workers heed it within seconds. Needs a key of all apps."""
        done = await BudgetStore(context.database).set(parse_budget(**body.model_dump()), by=caller.name)
        address = f"/v1/budgets/{quote(done.stored.budget.id, safe='/:*')}"
        headers = {"location": address} if done.kind == "created" else {}
        return api_response(await _budget_details(context, done.stored, caller), 201 if headers else 200, headers)

    @router.delete(
        "/budgets/{budget_id:path}",
        status_code=204,
        summary="Remove a budget",
        operation_id="remove_budget",
        responses=problem_responses(403, 404),
    )
    async def remove_budget(_caller: Operator, budget_id: BudgetId) -> Response:
        """Runs that it holds go on, triggers it has paused are resumed. Needs a key of all apps."""
        if not await BudgetStore(context.database).remove(budget_id):
            raise _budget_not_found()
        return Response(status_code=204)


async def _budget_details(context: RoleContext, stored_budget: StoredBudget, caller: Caller) -> Mapping[str, Any]:
    found = [
        each
        for each in await read_statuses(context.database, caller.scope)
        if each.budget.id == stored_budget.budget.id
    ]
    fullest = sorted(found, key=lambda each: -each.share)[:MAX_WINDOWS_SHOWN]
    rows = [visible_row(caller, each) for each in fullest]
    return {**stored_budget.as_json(), "standings": [{name: row[name] for name in _WINDOW_FIELDS} for row in rows]}


def visible_row(caller: Caller, status: BudgetStatus) -> dict[str, Any]:
    told = status.as_json()
    is_shared = caller.scope is not None and status.budget.app_id is None
    return told | dict.fromkeys(_AMOUNT_FIELDS) if is_shared else told


def _applies_to(budget: Budget, app_id: str | None) -> bool:
    return app_id is None or budget.is_for_each_app or budget.app_id in (None, app_id)


def _position(row: Mapping[str, Any]) -> list[str | int]:
    return [row["budget_id"], row["for_app_id"] or ""]


async def _iter_rows(rows: Sequence[Mapping[str, Any]]) -> AsyncIterator[Mapping[str, Any]]:
    for row in rows:
        yield row


def _budget_not_found() -> ProblemError:
    """One of another app alone is as unknown as one that never was."""
    return ProblemError(404, "there is no such budget")


async def _on_unfit_budget(_request: Request, error: Exception) -> Response:
    assert isinstance(error, InvalidBudgetError)  # noqa: S101 -- FastAPI types every handler as one of Exception
    return problem_response(invalid_fields(error.problems))


BUDGET_HANDLERS: dict[Any, Any] = {InvalidBudgetError: _on_unfit_budget}
