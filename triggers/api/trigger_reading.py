"""Reading triggers: a page of those that the caller may know of."""

from contextlib import aclosing
from typing import Annotated, Any

from fastapi import Depends, Query, Response

from triggers.api.access import Reader
from triggers.api.field_types import Name
from triggers.api.paging import Paging, page_answer
from triggers.api.trigger_models import State, Type
from triggers.control.listing import Wanted, each_trigger
from triggers.role import TriggerGround


async def _wanted(
    caller: Reader,
    app_id: Annotated[Name | None, Query(description="Only those that start runs of this app.")] = None,
    workflow: Annotated[Name | None, Query(description="Only of this workflow.")] = None,
    type: Annotated[Type | None, Query(description="Only of this type.")] = None,  # noqa: A002 -- its public name
    state: Annotated[State | None, Query(description="Only in this state.")] = None,
) -> Wanted:
    return Wanted(caller.within(app_id), workflow, type, state)


TriggerFilter = Annotated[Wanted, Depends(_wanted)]


async def page_of_triggers(ground: TriggerGround, wanted: Wanted, paging: Paging, *, viewer: str | None) -> Response:
    after = paging.behind(str)
    behind = "" if after is None else str(after[0])
    found = each_trigger(ground, wanted, viewer=viewer, after=behind, limit=paging.limit + 1)
    async with aclosing(found) as rows:
        return await page_answer(paging, rows, lambda row: [row["trigger_id"]], _as_it_is)


def _as_it_is(row: Any) -> Any:
    return row
