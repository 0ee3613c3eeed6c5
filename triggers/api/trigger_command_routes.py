"""Trigger command routes: pause, resume, fire and backfill a trigger."""

from fastapi import APIRouter, Response

from triggers.api.caller_access import Writer
from triggers.api.json_responses import api_response
from triggers.api.openapi import problem_responses
from triggers.api.strict_route import StrictRoute
from triggers.api.trigger_models import (
    Backfill,
    BackfillRequest,
    FiredRuns,
    FireRequest,
    PausedTrigger,
    PauseRequest,
    ResumeRequest,
)
from triggers.api.trigger_paths import TriggerPathParam
from triggers.control.backfill_control import backfill_json, prepare_backfill, run_backfill
from triggers.control.manual_fire import fire
from triggers.control.trigger_pauses import pause, resume
from triggers.role_context import RoleContext


def command_routes(context: RoleContext) -> APIRouter:
    router = APIRouter(
        prefix="/triggers/{workflow}/{name}", responses=problem_responses(403, 404, 409), route_class=StrictRoute
    )
    _add_pause_routes(router, context)
    _add_fire_route(router, context)
    _add_backfill_route(router, context)
    return router


def _add_pause_routes(router: APIRouter, context: RoleContext) -> None:
    @router.post("/pause", response_model=PausedTrigger, summary="Pause a trigger", operation_id="pause_trigger")
    async def pause_trigger(
        caller: Writer, trigger_path: TriggerPathParam, body: PauseRequest | None = None
    ) -> Response:
        """It starts nothing until it is resumed. A package's trigger is paused for one app, or for all."""
        entry = await trigger_path.find_entry(context)
        note = "" if body is None else body.note
        result = await pause(context, entry, by=caller.name, note=note, app_id=trigger_path.app_id)
        return api_response(result.as_json())

    @router.post("/resume", response_model=PausedTrigger, summary="Resume a trigger", operation_id="resume_trigger")
    async def resume_trigger(
        caller: Writer, trigger_path: TriggerPathParam, body: ResumeRequest | None = None
    ) -> Response:
        """It starts runs again. `from` moves its change stream, for all triggers of that stream."""
        entry = await trigger_path.find_entry(context)
        from_ = None if body is None else body.from_
        done = await resume(
            context, entry, by=caller.name, app_id=trigger_path.app_id, from_=from_, viewer=caller.scope
        )
        return api_response(done.as_json())


def _add_fire_route(router: APIRouter, context: RoleContext) -> None:
    @router.post(
        "/fire", status_code=202, response_model=FiredRuns, summary="Fire a trigger", operation_id="fire_trigger"
    )
    async def fire_trigger(caller: Writer, trigger_path: TriggerPathParam, body: FireRequest | None = None) -> Response:
        """Starts a run now, as if its event had come; without an app, one for each of its apps."""
        entry = await trigger_path.find_entry(context)
        event = {} if body is None else body.event
        fired = await fire(context, entry, by=caller.name, app_id=trigger_path.app_id, event=event, **caller.rights)
        return api_response({"runs": [run.as_json() for run in fired]}, 202)


def _add_backfill_route(router: APIRouter, context: RoleContext) -> None:
    @router.post("/backfill", response_model=Backfill, summary="Backfill a schedule", operation_id="backfill_trigger")
    async def backfill_trigger(caller: Writer, trigger_path: TriggerPathParam, body: BackfillRequest) -> Response:
        """Starts the runs of past times. A time that has a run starts none, so repeating is harmless."""
        entry = await trigger_path.find_entry(context)
        plan = await prepare_backfill(
            context, entry, start=body.from_, end=body.to, app_id=trigger_path.app_id, **caller.rights
        )
        result = {**backfill_json(plan), "dry_run": body.dry_run, "created": None}
        if not body.dry_run:
            done = await run_backfill(context, plan, by=caller.name, overlap=body.overlap)
            result |= {"created": done.created, "there_already": done.there_already}
        return api_response(result)
