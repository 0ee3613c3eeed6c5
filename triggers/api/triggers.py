"""The routes of triggers: make them, find them, look at one and change it, as `unattended triggers` does."""

from fastapi import APIRouter, Response

from triggers.api.access import Reader, Writer
from triggers.api.answers import api_response
from triggers.api.openapi import problem_responses
from triggers.api.paging import PagingParams
from triggers.api.revisions import IfMatch, require_revision, parse_revision, format_etag
from triggers.api.routes import StrictRoute
from triggers.api.trigger_models import EditedTrigger, NewTrigger, Trigger, TriggerPage
from triggers.api.trigger_orders import command_routes
from triggers.api.trigger_places import TriggerPathParam, trigger_url
from triggers.api.trigger_reading import TriggerFilterParams, triggers_page_response
from triggers.control.known import TriggerEntry
from triggers.control.making import edit, create_trigger, require_runtime_trigger, remove
from triggers.control.showing import show
from triggers.role import RoleContext


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
        """Those of packages and those made at run time, in the order of their ids."""
        return await triggers_page_response(context, trigger_filter, paging, viewer=caller.scope)

    @router.get(
        "/triggers/{workflow}/{name}",
        response_model=Trigger,
        summary="Show a trigger",
        operation_id="show_trigger",
        responses=problem_responses(403, 404, 409),
    )
    async def show_trigger(caller: Reader, trigger_path: TriggerPathParam) -> Response:
        """When it fires next or what it waits for, what came of it so far, and why something started nothing."""
        return await _trigger_response(context, await trigger_path.find_entry(context), app=trigger_path.app_id, viewer=caller.scope)


def _add_make_route(router: APIRouter, context: RoleContext) -> None:
    @router.post(
        "/triggers",
        status_code=201,
        response_model=Trigger,
        summary="Make a trigger",
        operation_id="make_trigger",
        responses=problem_responses(403, 404, 409),
    )
    async def make_trigger(caller: Writer, body: NewTrigger) -> Response:
        """It belongs to one app, starts runs of that app alone, and is at work within seconds. `ui_responses` in its
        spec answer for people: that needs a key that was made with `--may approve`."""
        app = caller.resolve_app(body.app_id)
        known = await create_trigger(context, body.workflow, app, body.spec, by=caller.name, **caller.rights)
        return await _trigger_response(context, known, app=app, viewer=caller.scope, status=201)


def _add_change_routes(router: APIRouter, context: RoleContext) -> None:
    @router.put(
        "/triggers/{workflow}/{name}",
        response_model=Trigger,
        summary="Edit a trigger",
        operation_id="edit_trigger",
        responses=problem_responses(403, 404, 409, 412, 428),
    )
    async def edit_trigger(caller: Writer, trigger_path: TriggerPathParam, body: EditedTrigger, if_match: IfMatch = None) -> Response:
        """One that was made at run time, as a whole. Say which revision is meant: nobody's edit is undone unseen.
        With `ui_responses` it needs a key that was made with `--may approve`."""
        found = require_runtime_trigger(await trigger_path.find_runtime_entry(context))
        revision = require_revision(found, if_match, body.revision)
        known = await edit(context, found, body.spec, by=caller.name, revision=revision, **caller.rights)
        return await _trigger_response(context, known, app=trigger_path.app_id, viewer=caller.scope)

    @router.delete(
        "/triggers/{workflow}/{name}",
        status_code=204,
        summary="Remove a trigger",
        operation_id="remove_trigger",
        responses=problem_responses(403, 404, 409, 412),
    )
    async def remove_trigger(caller: Writer, trigger_path: TriggerPathParam, if_match: IfMatch = None) -> Response:
        """One that was made at run time. Its runs stay."""
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
