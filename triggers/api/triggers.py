"""The routes of triggers: make them, find them, look at one and change it, as `unattended triggers` does."""

from fastapi import APIRouter, Response

from triggers.api.access import Reader, Writer
from triggers.api.answers import json_answer
from triggers.api.openapi import answers
from triggers.api.paging import Page
from triggers.api.revisions import IfMatch, needed_revision, revision_of, tag_of
from triggers.api.routes import StrictRoute
from triggers.api.trigger_models import EditedTrigger, NewTrigger, Trigger, TriggerPage
from triggers.api.trigger_orders import order_routes
from triggers.api.trigger_places import Placed, address_of
from triggers.api.trigger_reading import TriggerFilter, page_of_triggers
from triggers.control.known import Known
from triggers.control.making import edit, make, only_made_at_run_time, remove
from triggers.control.showing import show
from triggers.role import TriggerGround


def trigger_routes(ground: TriggerGround) -> APIRouter:
    router = APIRouter(tags=["Triggers"], route_class=StrictRoute)
    _add_reading(router, ground)
    _add_making(router, ground)
    _add_changing(router, ground)
    router.include_router(order_routes(ground))
    return router


def _add_reading(router: APIRouter, ground: TriggerGround) -> None:
    @router.get(
        "/triggers",
        response_model=TriggerPage,
        summary="List triggers",
        operation_id="list_triggers",
        responses=answers(403, 404),
    )
    async def list_triggers(caller: Reader, wanted: TriggerFilter, paging: Page) -> Response:
        """Those of packages and those made at run time, in the order of their ids."""
        return await page_of_triggers(ground, wanted, paging, viewer=caller.scope)

    @router.get(
        "/triggers/{workflow}/{name}",
        response_model=Trigger,
        summary="Show a trigger",
        operation_id="show_trigger",
        responses=answers(403, 404, 409),
    )
    async def show_trigger(caller: Reader, place: Placed) -> Response:
        """When it fires next or what it waits for, what came of it so far, and why something started nothing."""
        return await _shown(ground, await place.trigger(ground), app=place.app_id, viewer=caller.scope)


def _add_making(router: APIRouter, ground: TriggerGround) -> None:
    @router.post(
        "/triggers",
        status_code=201,
        response_model=Trigger,
        summary="Make a trigger",
        operation_id="make_trigger",
        responses=answers(403, 404, 409),
    )
    async def make_trigger(caller: Writer, new: NewTrigger) -> Response:
        """It belongs to one app, starts runs of that app alone, and is at work within seconds. `ui_responses` in its
        spec answer for people: that needs a key that was made with `--may approve`."""
        app = caller.app(new.app_id)
        known = await make(ground, new.workflow, app, new.spec, by=caller.name, **caller.rights)
        return await _shown(ground, known, app=app, viewer=caller.scope, status=201)


def _add_changing(router: APIRouter, ground: TriggerGround) -> None:
    @router.put(
        "/triggers/{workflow}/{name}",
        response_model=Trigger,
        summary="Edit a trigger",
        operation_id="edit_trigger",
        responses=answers(403, 404, 409, 412, 428),
    )
    async def edit_trigger(caller: Writer, place: Placed, edited: EditedTrigger, if_match: IfMatch = None) -> Response:
        """One that was made at run time, as a whole. Say which revision is meant: nobody's edit is undone unseen.
        With `ui_responses` it needs a key that was made with `--may approve`."""
        found = only_made_at_run_time(await place.made(ground))
        revision = needed_revision(found, if_match, edited.revision)
        known = await edit(ground, found, edited.spec, by=caller.name, revision=revision, **caller.rights)
        return await _shown(ground, known, app=place.app_id, viewer=caller.scope)

    @router.delete(
        "/triggers/{workflow}/{name}",
        status_code=204,
        summary="Remove a trigger",
        operation_id="remove_trigger",
        responses=answers(403, 404, 409, 412),
    )
    async def remove_trigger(caller: Writer, place: Placed, if_match: IfMatch = None) -> Response:
        """One that was made at run time. Its runs stay."""
        found = only_made_at_run_time(await place.made(ground))
        await remove(ground, found, by=caller.name, revision=revision_of(found, if_match))
        return Response(status_code=204)


async def _shown(
    ground: TriggerGround, known: Known, *, app: str | None, viewer: str | None, status: int = 200
) -> Response:
    shown = await show(ground, known, app_id=app, viewer=viewer)
    headers = {} if known.app_id is None else {"etag": tag_of(shown["revision"])}
    if status == 201:
        headers["location"] = address_of(known)
    return json_answer(shown, status, headers)
