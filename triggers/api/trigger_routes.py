"""Trigger routes: create, list, show and change triggers."""

import re
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Response

from triggers.api.caller_access import Reader, Writer
from triggers.api.field_types import Name
from triggers.api.json_responses import api_response
from triggers.api.openapi import problem_responses
from triggers.api.paging import Paging, PagingParams, page_response
from triggers.api.strict_route import StrictRoute
from triggers.api.trigger_command_routes import command_routes
from triggers.api.trigger_models import EditedTrigger, NewTrigger, Trigger, TriggerPage, TriggerType
from triggers.api.trigger_paths import TriggerPathParam, trigger_url
from triggers.control.runtime_triggers import create_trigger, edit, remove, require_runtime_trigger
from triggers.control.trigger_entry import TriggerEntry
from triggers.control.trigger_errors import EditedMeanwhileError
from triggers.control.trigger_lists import TriggerFilter, iter_triggers
from triggers.control.trigger_status import TriggerStateName
from triggers.control.trigger_view import show
from triggers.gateway.http_problems import ProblemError
from triggers.role_context import RoleContext

MAX_ETAG_LENGTH = 100
ANY_REVISION = "*"
_TAG = re.compile(r'"([1-9][0-9]{0,8})"')
IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        max_length=MAX_ETAG_LENGTH,
        description="The ETag that was read before, or * for any revision.",
    ),
]


def trigger_routes(context: RoleContext) -> APIRouter:
    router = APIRouter(tags=["Triggers"], route_class=StrictRoute)
    _add_read_routes(router, context)
    _add_make_route(router, context)
    _add_change_routes(router, context)
    router.include_router(command_routes(context))
    return router


def _add_read_routes(router: APIRouter, context: RoleContext) -> None:
    @router.get(
        "/triggers",
        response_model=TriggerPage,
        summary="List triggers",
        operation_id="list_triggers",
        responses=problem_responses(403, 404),
    )
    async def list_triggers(caller: Reader, trigger_filter: TriggerFilterParams, paging: PagingParams) -> Response:
        """Those of packages and those created at run time, in the order of their ids."""
        return await triggers_page_response(context, trigger_filter, paging, viewer=caller.scope)

    @router.get(
        "/triggers/{workflow}/{name}",
        response_model=Trigger,
        summary="Show a trigger",
        operation_id="show_trigger",
        responses=problem_responses(403, 404, 409),
    )
    async def show_trigger(caller: Reader, trigger_path: TriggerPathParam) -> Response:
        """When it fires next or what it waits for, its results so far, and why events started nothing."""
        return await _trigger_response(
            context, await trigger_path.find_entry(context), app=trigger_path.app_id, viewer=caller.scope
        )


def _add_make_route(router: APIRouter, context: RoleContext) -> None:
    @router.post(
        "/triggers",
        status_code=201,
        response_model=Trigger,
        summary="Create a trigger",
        operation_id="make_trigger",
        responses=problem_responses(403, 404, 409),
    )
    async def make_trigger(caller: Writer, body: NewTrigger) -> Response:
        """It belongs to one app, starts runs of that app only, and is active within seconds. `ui_responses` in its spec
        answer for people: they require a key created with `--may approve`."""
        app = caller.resolve_app(body.app_id)
        entry = await create_trigger(context, body.workflow, app, body.spec, by=caller.name, **caller.rights)
        return await _trigger_response(context, entry, app=app, viewer=caller.scope, status=201)


def _add_change_routes(router: APIRouter, context: RoleContext) -> None:
    @router.put(
        "/triggers/{workflow}/{name}",
        response_model=Trigger,
        summary="Edit a trigger",
        operation_id="edit_trigger",
        responses=problem_responses(403, 404, 409, 412, 428),
    )
    async def edit_trigger(
        caller: Writer, trigger_path: TriggerPathParam, body: EditedTrigger, if_match: IfMatch = None
    ) -> Response:
        """Replaces the spec of one created at run time. The revision is required, so that no other edit is lost.
        `ui_responses` require a key created with `--may approve`."""
        found = require_runtime_trigger(await trigger_path.find_runtime_entry(context))
        revision = require_revision(found, if_match, body.revision)
        entry = await edit(context, found, body.spec, by=caller.name, revision=revision, **caller.rights)
        return await _trigger_response(context, entry, app=trigger_path.app_id, viewer=caller.scope)

    @router.delete(
        "/triggers/{workflow}/{name}",
        status_code=204,
        summary="Remove a trigger",
        operation_id="remove_trigger",
        responses=problem_responses(403, 404, 409, 412),
    )
    async def remove_trigger(caller: Writer, trigger_path: TriggerPathParam, if_match: IfMatch = None) -> Response:
        """Removes one created at run time. Its runs stay."""
        found = require_runtime_trigger(await trigger_path.find_runtime_entry(context))
        await remove(context, found, by=caller.name, revision=parse_revision(found, if_match))
        return Response(status_code=204)


async def _trigger_response(
    context: RoleContext, entry: TriggerEntry, *, app: str | None, viewer: str | None, status: int = 200
) -> Response:
    shown = await show(context, entry, app_id=app, viewer=viewer)
    headers = {} if entry.app_id is None else {"etag": format_etag(shown["revision"])}
    if status == 201:
        headers["location"] = trigger_url(entry)
    return api_response(shown, status, headers)


async def _trigger_filter_params(
    caller: Reader,
    app_id: Annotated[Name | None, Query(description="Only those that start runs of this app.")] = None,
    workflow: Annotated[Name | None, Query(description="Only of this workflow.")] = None,
    type: Annotated[TriggerType | None, Query(description="Only of this type.")] = None,  # noqa: A002 -- its public name
    state: Annotated[TriggerStateName | None, Query(description="Only in this state.")] = None,
) -> TriggerFilter:
    return TriggerFilter(caller.resolve_optional_app(app_id), workflow, type, state)


TriggerFilterParams = Annotated[TriggerFilter, Depends(_trigger_filter_params)]


async def triggers_page_response(
    context: RoleContext, trigger_filter: TriggerFilter, paging: Paging, *, viewer: str | None
) -> Response:
    after = paging.start_after(str)
    behind = "" if after is None else str(after[0])
    found = iter_triggers(context, trigger_filter, viewer=viewer, after=behind, limit=paging.limit + 1)
    async with aclosing(found) as rows:
        return await page_response(paging, rows, lambda row: [row["trigger_id"]], dict)


def format_etag(revision: int) -> str:
    return f'"{revision}"'


def parse_revision(entry: TriggerEntry, if_match: str | None, body_revision: int | None = None) -> int | None:
    """Returns None for any revision.

    Text that is no ETag matches none, like an old one.
    """
    if if_match is None or if_match.strip() == ANY_REVISION:
        return body_revision
    tag = _TAG.fullmatch(if_match.strip())
    if tag is None or body_revision not in (None, int(tag[1])):
        raise EditedMeanwhileError(entry.id, revision=0 if entry.record is None else entry.record.revision)
    return int(tag[1])


def require_revision(entry: TriggerEntry, if_match: str | None, body_revision: int | None) -> int | None:
    """Raises 428 without a revision."""
    if if_match is None and body_revision is None:
        raise ProblemError(428, "the revision is required: If-Match with the ETag, or `revision` in the body")
    return parse_revision(entry, if_match, body_revision)
