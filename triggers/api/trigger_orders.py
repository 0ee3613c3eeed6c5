"""What is asked of a trigger: to pause, to go on, to fire now, and to make up for times that have passed."""

from fastapi import APIRouter, Response

from triggers.api.access import Writer
from triggers.api.answers import json_answer
from triggers.api.openapi import answers
from triggers.api.routes import StrictRoute
from triggers.api.trigger_models import (
    Backfill,
    BackfillOrder,
    FiredRuns,
    FireOrder,
    PausedTrigger,
    PauseOrder,
    ResumeOrder,
)
from triggers.api.trigger_places import Placed
from triggers.control.backfilling import as_json, carry_out, plan
from triggers.control.firing import fire
from triggers.control.pausing import pause
from triggers.control.resuming import resume
from triggers.role import TriggerGround


def order_routes(ground: TriggerGround) -> APIRouter:
    router = APIRouter(prefix="/triggers/{workflow}/{name}", responses=answers(403, 404, 409), route_class=StrictRoute)
    _add_pausing(router, ground)
    _add_firing(router, ground)
    _add_backfilling(router, ground)
    return router


def _add_pausing(router: APIRouter, ground: TriggerGround) -> None:
    @router.post("/pause", response_model=PausedTrigger, summary="Pause a trigger", operation_id="pause_trigger")
    async def pause_trigger(caller: Writer, place: Placed, order: PauseOrder | None = None) -> Response:
        """Nothing more starts by it until it is resumed. A package's trigger is paused for one app, or for all."""
        known = await place.trigger(ground)
        note = "" if order is None else order.note
        return json_answer((await pause(ground, known, by=caller.name, note=note, app_id=place.app_id)).as_json())

    @router.post("/resume", response_model=PausedTrigger, summary="Resume a trigger", operation_id="resume_trigger")
    async def resume_trigger(caller: Writer, place: Placed, order: ResumeOrder | None = None) -> Response:
        """It starts runs again; with `from` its change stream goes on from there, which all its triggers feel."""
        known = await place.trigger(ground)
        from_ = None if order is None else order.from_
        done = await resume(ground, known, by=caller.name, app_id=place.app_id, from_=from_, viewer=caller.scope)
        return json_answer(done.as_json())


def _add_firing(router: APIRouter, ground: TriggerGround) -> None:
    @router.post(
        "/fire", status_code=202, response_model=FiredRuns, summary="Fire a trigger", operation_id="fire_trigger"
    )
    async def fire_trigger(caller: Writer, place: Placed, order: FireOrder | None = None) -> Response:
        """Starts a run now, as if what it waits for had happened; without an app one for each of its apps."""
        known = await place.trigger(ground)
        event = {} if order is None else order.event
        fired = await fire(ground, known, by=caller.name, app_id=place.app_id, event=event, **caller.rights)
        return json_answer({"runs": [each.as_json() for each in fired]}, 202)


def _add_backfilling(router: APIRouter, ground: TriggerGround) -> None:
    @router.post("/backfill", response_model=Backfill, summary="Backfill a schedule", operation_id="backfill_trigger")
    async def backfill_trigger(caller: Writer, place: Placed, order: BackfillOrder) -> Response:
        """Starts the runs for times that have passed. What ran at its time is not run again: repeating is harmless."""
        known = await place.trigger(ground)
        planned = await plan(ground, known, start=order.from_, end=order.to, app_id=place.app_id, **caller.rights)
        told = {**as_json(planned), "dry_run": order.dry_run, "created": None}
        if not order.dry_run:
            done = await carry_out(ground, planned, by=caller.name, overlap=order.overlap)
            told |= {"created": done.created, "there_already": done.there_already}
        return json_answer(told)
