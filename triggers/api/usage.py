"""The route of usage: what was used and what it cost, as `unattended usage` tells it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Any, get_args

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from accounting.csv_lines import csv_lines
from accounting.totals.reading import Wanted
from accounting.usage import UsageTotals
from triggers.api.access import Reader
from triggers.api.field_types import Moment, Name, said
from triggers.api.openapi import answers
from triggers.api.paging import Page, Paging, Position, bad_cursor, cursor_of, link_to, page_answer
from triggers.api.routes import StrictRoute
from triggers.api.usage_listing import each_row, in_order
from triggers.api.usage_models import Key, UsagePage
from triggers.role import TriggerGround

MOST_KEYS = 3
_USUAL: Sequence[Key] = ("app_id",)
_CSV = "text/csv"
_AS_CSV: dict[str, Any] = {"content": {_CSV: {"schema": {"type": "string"}}}}


async def _wanted(  # noqa: PLR0913 -- one for each filter of `unattended usage`
    *,
    caller: Reader,
    app_id: Annotated[Name | None, Query(description="Only this app's. A key of one app sees no other.")] = None,
    workflow: Annotated[Name | None, Query(description="Only of this workflow.")] = None,
    agent: Annotated[Name | None, Query(description="Only of this agent.")] = None,
    model: Annotated[Name | None, Query(description="Only of this model.")] = None,
    provider: Annotated[Name | None, Query(description="Only of this provider.")] = None,
    trigger_type: Annotated[
        Name | None, Query(description="Only of runs that this type of trigger started, such as `webhook`.")
    ] = None,
    since: Annotated[Moment | None, Query(description="Only calls that began at this time or later.")] = None,
    until: Annotated[Moment | None, Query(description="Only calls that began before this time.")] = None,
) -> Wanted:
    return Wanted(
        app_id=caller.within(app_id),
        workflow=workflow,
        agent=agent,
        model=model,
        provider=provider,
        trigger_type=trigger_type,
        since=since,
        until=until,
    )


UsageFilter = Annotated[Wanted, Depends(_wanted)]
By = Annotated[
    Annotated[
        list[Key],
        Field(min_length=1, max_length=MOST_KEYS),
        said(f"must be one to {MOST_KEYS} of {', '.join(get_args(Key))}"),
    ]
    | None,
    Query(description="By what calls are grouped: up to three keys, each as a `by` of its own. Without: `app_id`."),
]


def usage_routes(ground: TriggerGround) -> APIRouter:
    router = APIRouter(tags=["Usage"], route_class=StrictRoute)

    @router.get(
        "/usage",
        response_model=UsagePage,
        summary="Sum up usage",
        operation_id="sum_usage",
        responses={200: _AS_CSV, **answers(403, 404)},
    )
    async def sum_usage(request: Request, wanted: UsageFilter, paging: Page, by: By = None) -> Response:
        """Tokens and USD of all model calls, grouped, in the order of their keys, times first. `cost_usd` is null
        where no price is known; `unpriced`, `missing` and `estimated` say of how many calls the sums do not know all.
        With `Accept: text/csv` the page is CSV, and the `Link` header leads to the next one."""
        listing = _Listing(in_order(by or _USUAL), paging)
        found = each_row(ground.database, listing.keys, wanted, listing.after)
        async with aclosing(found) as rows:
            if _CSV in request.headers.get("accept", ""):
                return await listing.as_csv(rows)
            return await page_answer(paging, (row.as_json() async for row in rows), listing.position, dict)

    return router


@dataclass(frozen=True, slots=True)
class _Listing:
    keys: Sequence[str]
    paging: Paging

    @property
    def after(self) -> list[str] | None:
        """A cursor names its keys: by others it would lead somewhere else."""
        behind = self.paging.behind(*[str] * (len(self.keys) + 1))
        if behind is None:
            return None
        if behind[0] != _named(self.keys):
            raise bad_cursor()
        return [str(part) for part in behind[1:]]

    def position(self, row: Mapping[str, Any]) -> Position:
        return [_named(self.keys), *(str(row[key]) for key in self.keys)]

    async def as_csv(self, rows: AsyncIterator[UsageTotals]) -> Response:
        page: list[Mapping[str, Any]] = []
        next_ = None
        async for row in rows:
            if len(page) == self.paging.limit:
                next_ = cursor_of(self.paging, self.position(page[-1]))
                break
            page.append(row.as_json())
        text = "".join(csv_lines([*self.keys, *UsageTotals().as_json()], page))
        return Response(text, 200, dict(link_to(self.paging, next_)), f"{_CSV}; charset=utf-8")


def _named(keys: Sequence[str]) -> str:
    return ",".join(keys)
