"""The routes of runs: start one, find them, look at one, and change it, as the commands of `unattended runs` do."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Response

from triggers.api.access import Approver, Reader, Writer
from triggers.api.answers import json_answer
from triggers.api.idempotency import IdempotencyKeys, IdempotencyText
from triggers.api.openapi import answers
from triggers.api.paging import Page
from triggers.api.problems import invalid_fields
from triggers.api.routes import StrictRoute
from triggers.api.run_making import make_run
from triggers.api.run_models import (
    AcceptedRun,
    AnsweredRun,
    ChangedRun,
    NewRun,
    ReplayOrder,
    Run,
    RunAnswer,
    RunPage,
    TurnPage,
)
from triggers.api.run_reading import RunFilter, one_run, page_of_runs, page_of_turns
from triggers.control.known import check_replay_approved
from triggers.role import TriggerGround
from workers.control.answer import UnfitAnswerError, answer
from workers.control.cancelling import cancel
from workers.control.changed import seen
from workers.control.replaying import ReplayOptions, replay

RunId = Annotated[
    str, Path(description="As it was told when the run was accepted.", examples=["run_01KC0000000000000000000000"])
]
IdempotencyKey = Annotated[
    IdempotencyText | None,
    Header(
        alias="Idempotency-Key",
        description="Of your own making: the same key with the same body, within 7 days, is the same run.",
    ),
]

_WITH_ID = ("show_run", "list_turns", "cancel_run", "replay_run", "answer_run")


def _leading_on(name: str) -> dict[str, Any]:
    """What can be done with the run whose id an answer has under this name."""
    links = {each: {"operationId": each, "parameters": {"run_id": f"$response.body#/{name}"}} for each in _WITH_ID}
    return {"links": links}


def run_routes(ground: TriggerGround) -> APIRouter:
    router = APIRouter(tags=["Runs"], route_class=StrictRoute)
    _add_reading(router, ground)
    _add_making(router, ground)
    _add_changing(router, ground)
    _add_answering(router, ground)
    return router


def _add_reading(router: APIRouter, ground: TriggerGround) -> None:
    store = ground.store

    @router.get(
        "/runs",
        response_model=RunPage,
        summary="List runs",
        operation_id="list_runs",
        responses=answers(403, 404),
    )
    async def list_runs(_caller: Reader, matching: RunFilter, paging: Page) -> Response:
        """The newest first, without what may be large: inputs, contexts and histories. What is accepted meanwhile
        moves nothing on later pages."""
        return await page_of_runs(store, matching, paging)

    @router.get(
        "/runs/{run_id}", response_model=Run, summary="Show a run", operation_id="show_run", responses=answers(404)
    )
    async def show_run(caller: Reader, run_id: RunId) -> Response:
        """Everything about one run but its turns, with what it has cost up to now."""
        return await one_run(store, caller, run_id)

    @router.get(
        "/runs/{run_id}/turns",
        response_model=TurnPage,
        summary="List a run's turns",
        operation_id="list_turns",
        responses=answers(404),
    )
    async def list_turns(caller: Reader, run_id: RunId, paging: Page) -> Response:
        """In their order: who spoke, what was said, which tools were called and what changed. A page of large turns
        may have fewer than `limit`."""
        return await page_of_turns(store, caller, run_id, paging)


def _add_making(router: APIRouter, ground: TriggerGround) -> None:
    keys = IdempotencyKeys(ground.database)

    @router.post(
        "/runs",
        status_code=202,
        response_model=AcceptedRun,
        summary="Start a run",
        operation_id="start_run",
        response_description="A new run, which is durable",
        responses={
            200: {"model": AcceptedRun, "description": "This key started that run before"},
            202: _leading_on("run_id"),
            **answers(403, 404, 409),
        },
    )
    async def start_run(caller: Writer, new: NewRun, idempotency_key: IdempotencyKey = None) -> Response:
        """Answered when the run is durable: it is lost no more, whatever happens to this server."""
        return await make_run(ground, keys, caller, new, idempotency_key)


def _add_changing(router: APIRouter, ground: TriggerGround) -> None:
    store, wake = ground.store, ground.wakeups
    common = answers(403, 404, 409)

    @router.post(
        "/runs/{run_id}/cancel",
        response_model=ChangedRun,
        summary="Cancel a run",
        operation_id="cancel_run",
        responses=dict(common),
    )
    async def cancel_run(caller: Writer, run_id: RunId) -> Response:
        """One that waits ends at once, one that is worked on with its worker's next heartbeat."""
        done = await cancel(store, run_id, by=caller.name, app_id=caller.scope)
        return json_answer(done.as_json())

    @router.post(
        "/runs/{run_id}/replay",
        response_model=ChangedRun,
        summary="Replay a run",
        operation_id="replay_run",
        responses={200: _leading_on("new_run_id"), **common},
    )
    async def replay_run(caller: Writer, run_id: RunId, order: ReplayOrder | None = None) -> Response:
        """What it was asked to do, asked once more from its first turn, as the run `new_run_id`. Repeating this starts
        nothing twice. A run whose tools or write-backs succeeded is refused unless `repeat_done` says that they may
        happen again."""
        options = ReplayOptions() if order is None else ReplayOptions(**order.model_dump())
        await check_replay_approved(ground, store, run_id, app_id=caller.scope, may_approve=caller.may_approve)
        done = await replay(store, wake, run_id, by=caller.name, app_id=caller.scope, options=options)
        return json_answer(done.as_json(), 200, {"location": f"/v1/runs/{done.new_run_id}"})


def _add_answering(router: APIRouter, ground: TriggerGround) -> None:
    store, wake = ground.store, ground.wakeups

    @router.post(
        "/runs/{run_id}/answer",
        response_model=AnsweredRun,
        summary="Answer a run",
        operation_id="answer_run",
        responses=answers(403, 404, 409),
    )
    async def answer_run(caller: Approver, run_id: RunId, given: RunAnswer) -> Response:
        """What a person says to one question of a run that waits (`needs_human`). The run goes on where it stands
        when each of its questions is answered. Needs a key that was made with `--may approve`."""
        said = given.model_dump(exclude={"by"})
        await seen(store, run_id, caller.scope)  # an unknown run is that first, whatever the answer looks like
        try:
            done = await answer(store, wake, run_id, by=caller.name, name=given.by, app_id=caller.scope, **said)
        except UnfitAnswerError as error:
            raise invalid_fields(_field(str(error))) from None
        told = {"run_id": done.run_id, "answer": done.number, "repeated": done.repeated}
        return json_answer({**told, "waiting": list(done.waiting)})


_FIELDS = frozenset({"question", "message", "responses", "by"})


def _field(said: str) -> dict[str, str]:
    """Its text begins with the field's name where one is at fault."""
    name, colon, sentence = said.partition(": ")
    return {name: sentence} if colon and name in _FIELDS else {"body": said}
