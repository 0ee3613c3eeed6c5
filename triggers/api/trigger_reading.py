"""Reading triggers: a page of those that the caller may know of."""

from contextlib import aclosing
from typing import Annotated, Any

from fastapi import Depends, Query, Response

from triggers.api.access import Reader
from triggers.api.field_types import Name
from triggers.api.paging import Paging, page_response
from triggers.api.trigger_models import TriggerStateName, TriggerType
from triggers.control.listing import TriggerFilter, iter_triggers
from triggers.role import RoleContext


async def _trigger_filter_params(
    caller: Reader,
    app_id: Annotated[Name | None, Query(description="Only those that start runs of this app.")] = None,
    workflow: Annotated[Name | None, Query(description="Only of this workflow.")] = None,
    type: Annotated[TriggerType | None, Query(description="Only of this type.")] = None,  # noqa: A002 -- its public name
    state: Annotated[TriggerStateName | None, Query(description="Only in this state.")] = None,
) -> TriggerFilter:
    return TriggerFilter(caller.resolve_optional_app(app_id), workflow, type, state)


TriggerFilterParams = Annotated[TriggerFilter, Depends(_trigger_filter_params)]


async def triggers_page_response(context: RoleContext, trigger_filter: TriggerFilter, paging: Paging, *, viewer: str | None) -> Response:
    after = paging.start_after(str)
    behind = "" if after is None else str(after[0])
    found = iter_triggers(context, trigger_filter, viewer=viewer, after=behind, limit=paging.limit + 1)
    async with aclosing(found) as rows:
        return await page_response(paging, rows, lambda row: [row["trigger_id"]], _identity)


def _identity(row: Any) -> Any:
    return row
