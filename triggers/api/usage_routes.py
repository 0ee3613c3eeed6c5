"""The usage route: tokens and costs, as in `unattended usage`."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Any, get_args

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from accounting.infra.csv_lines import format_csv_lines
from accounting.totals.usage_query import UsageFilter
from accounting.usage import UsageTotals
from triggers.api.caller_access import Reader
from triggers.api.field_types import Moment, Name, with_error
from triggers.api.openapi import problem_responses
from triggers.api.paging import Paging, PagingParams, Position, invalid_cursor, link_header, make_cursor, page_response
from triggers.api.strict_route import StrictRoute
from triggers.api.usage_models import UsageKey, UsagePage
from triggers.api.usage_rows import iter_rows, order_keys
from triggers.role_context import RoleContext

MAX_KEYS = 3
_DEFAULT_KEYS: Sequence[UsageKey] = ("app_id",)
_CSV = "text/csv"
_AS_CSV: dict[str, Any] = {"content": {_CSV: {"schema": {"type": "string"}}}}


async def _usage_filter_params(  # noqa: PLR0913 -- one for each filter of `unattended usage`
    *,
    caller: Reader,
    app_id: Annotated[Name | None, Query(description="Only this app's. A key of one app sees no other.")] = None,
    workflow: Annotated[Name | None, Query(description="Only of this workflow.")] = None,
    agent: Annotated[Name | None, Query(description="Only of this agent.")] = None,
    model: Annotated[Name | None, Query(description="Only of this model.")] = None,
    provider: Annotated[Name | None, Query(description="Only of this provider.")] = None,
    trigger_type: Annotated[
        Name | None, Query(description="Only of runs started by this type of trigger, such as `webhook`.")
    ] = None,
    since: Annotated[Moment | None, Query(description="Only calls that began at this time or later.")] = None,
    until: Annotated[Moment | None, Query(description="Only calls that began before this time.")] = None,
) -> UsageFilter:
    return UsageFilter(
        app_id=caller.resolve_optional_app(app_id),
        workflow=workflow,
        agent=agent,
        model=model,
        provider=provider,
        trigger_type=trigger_type,
        since=since,
        until=until,
    )


UsageFilterParams = Annotated[UsageFilter, Depends(_usage_filter_params)]
GroupBy = Annotated[
    Annotated[
        list[UsageKey],
        Field(min_length=1, max_length=MAX_KEYS),
        with_error(f"must be one to {MAX_KEYS} of {', '.join(get_args(UsageKey))}"),
    ]
    | None,
    Query(description="Up to three keys to group by, each as a `by` of its own. Default: `app_id`."),
]


def usage_routes(context: RoleContext) -> APIRouter:
    router = APIRouter(tags=["Usage"], route_class=StrictRoute)

    @router.get(
        "/usage",
        response_model=UsagePage,
        summary="Sum up usage",
        operation_id="sum_usage",
        responses={200: _AS_CSV, **problem_responses(403, 404)},
    )
    async def sum_usage(
        request: Request, usage_filter: UsageFilterParams, paging: PagingParams, by: GroupBy = None
    ) -> Response:
        """Tokens and USD of all model calls, grouped and sorted by their keys, times first. `cost_usd` is null without
        a known price; `unpriced`, `missing` and `estimated` count the calls with incomplete data. With
        `Accept: text/csv` the page is CSV, and the `Link` header leads to the next one."""
        listing = _UsageListing(order_keys(by or _DEFAULT_KEYS), paging)
        found = iter_rows(context.database, listing.keys, usage_filter, listing.after)
        async with aclosing(found) as rows:
            if _CSV in request.headers.get("accept", ""):
                return await listing.as_csv(rows)
            return await page_response(paging, (row.as_json() async for row in rows), listing.position, dict)

    return router


@dataclass(frozen=True, slots=True)
class _UsageListing:
    keys: Sequence[str]
    paging: Paging

    @property
    def after(self) -> list[str] | None:
        """Returns the position, if the cursor was built for the same keys."""
        position = self.paging.start_after(*[str] * (len(self.keys) + 1))
        if position is None:
            return None
        if position[0] != _keys_text(self.keys):
            raise invalid_cursor()
        return [str(part) for part in position[1:]]

    def position(self, row: Mapping[str, Any]) -> Position:
        return [_keys_text(self.keys), *(str(row[key]) for key in self.keys)]

    async def as_csv(self, rows: AsyncIterator[UsageTotals]) -> Response:
        page: list[Mapping[str, Any]] = []
        next_ = None
        async for row in rows:
            if len(page) == self.paging.limit:
                next_ = make_cursor(self.paging, self.position(page[-1]))
                break
            page.append(row.as_json())
        text = "".join(format_csv_lines([*self.keys, *UsageTotals().as_json()], page))
        return Response(text, 200, dict(link_header(self.paging, next_)), f"{_CSV}; charset=utf-8")


def _keys_text(keys: Sequence[str]) -> str:
    return ",".join(keys)
