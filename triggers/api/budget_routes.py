"""Budget routes: limits and their status, as in `unattended budgets`.

A key of one app sees the budgets of that app. Of a budget that several apps share it sees whether it is exhausted,
without amounts, which would reveal the usage of the others.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from accounting.budgets.budget import Budget, InvalidBudgetError, parse_budget
from accounting.budgets.budget_status import BudgetStatus, read_statuses
from accounting.budgets.budget_store import BudgetStore, StoredBudget
from triggers.api.api_problems import invalid_fields
from triggers.api.budget_models import BudgetDetails, BudgetPage, BudgetRequest
from triggers.api.caller_access import Caller, Reader, Writer
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
        operation: {"operationId": operation, "parameters": {"budget_id": "$response.body#/budget_id"}}
        for operation in ("show_budget", "remove_budget")
    }
}

BudgetId = Annotated[str, Path(description="As in the list of budgets.", examples=["app:acme/day/usd"])]
AppFilter = Annotated[Name | None, Query(description="Only those that limit this app's runs.")]


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
        """With the use of the current window. A budget of each app (`*`) has a row for each app that has used it."""
        rows = [
            visible_row(caller, status)
            for status in await read_statuses(context.database, caller.resolve_optional_app(app_id))
        ]
        after = paging.start_after(str, str)
        sorted_rows = sorted(((_position(row), row) for row in rows), key=lambda pair: pair[0])
        page_rows = [row for position, row in sorted_rows if after is None or position > after]
        return await page_response(paging, _iter_rows(page_rows), _position, dict)

    @router.get(
        "/budgets/{budget_id:path}",
        response_model=BudgetDetails,
        summary="Show a budget",
        operation_id="show_budget",
        responses=problem_responses(404),
    )
    async def show_budget(caller: Reader, budget_id: BudgetId) -> Response:
        """The limit, what happens when it is exhausted, and its status for each of its apps."""
        stored = await BudgetStore(context.database).find(budget_id)
        if stored is None or not _applies_to(stored.budget, caller.scope):
            raise _budget_not_found()
        return api_response(await _budget_details(context, stored, caller))


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
        """Creates it, or replaces the one of the same app, workflow, window and unit as a whole. What is spent in the
        window stays spent. Workers apply it within seconds. Requires a key for all apps."""
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
        """Runs that it holds go on, and triggers that it paused resume. Requires a key for all apps."""
        if not await BudgetStore(context.database).remove(budget_id):
            raise _budget_not_found()
        return Response(status_code=204)


async def _budget_details(context: RoleContext, stored_budget: StoredBudget, caller: Caller) -> Mapping[str, Any]:
    statuses = [
        status
        for status in await read_statuses(context.database, caller.scope)
        if status.budget.id == stored_budget.budget.id
    ]
    fullest = sorted(statuses, key=lambda status: -status.share)[:MAX_WINDOWS_SHOWN]
    rows = [visible_row(caller, status) for status in fullest]
    return {**stored_budget.as_json(), "standings": [{name: row[name] for name in _WINDOW_FIELDS} for row in rows]}


def visible_row(caller: Caller, status: BudgetStatus) -> dict[str, Any]:
    row = status.as_json()
    is_shared = caller.scope is not None and status.budget.app_id is None
    return row | dict.fromkeys(_AMOUNT_FIELDS) if is_shared else row


def _applies_to(budget: Budget, app_id: str | None) -> bool:
    return app_id is None or budget.is_for_each_app or budget.app_id in (None, app_id)


def _position(row: Mapping[str, Any]) -> list[str | int]:
    return [row["budget_id"], row["for_app_id"] or ""]


async def _iter_rows(rows: Sequence[Mapping[str, Any]]) -> AsyncIterator[Mapping[str, Any]]:
    for row in rows:
        yield row


def _budget_not_found() -> ProblemError:
    """Uses the same 404 for another app's budget and for none."""
    return ProblemError(404, "there is no such budget")


async def _on_invalid_budget(_request: Request, error: Exception) -> Response:
    assert isinstance(error, InvalidBudgetError)  # noqa: S101 -- FastAPI types each handler as one of Exception
    return problem_response(invalid_fields(error.problems))


BUDGET_HANDLERS: dict[Any, Any] = {InvalidBudgetError: _on_invalid_budget}
