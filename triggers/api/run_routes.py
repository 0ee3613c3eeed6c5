"""Run routes: start, list, show and change runs, as `unattended runs` does."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Response
from ulid import ULID

from triggers.api.api_problems import invalid_fields, workflow_not_found
from triggers.api.caller_access import Approver, Caller, Reader, Writer
from triggers.api.idempotency import IdempotencyKeys, IdempotencyKeyText, unquote_key
from triggers.api.json_responses import api_response
from triggers.api.openapi import problem_responses
from triggers.api.paging import PagingParams
from triggers.api.run_models import (
    AcceptedRun,
    AnsweredRun,
    ChangedRun,
    NewRun,
    ReplayRequest,
    Run,
    RunAnswer,
    RunPage,
    TurnPage,
)
from triggers.api.run_queries import RunFilterParams, run_details_response, runs_page_response, turns_page_response
from triggers.api.strict_route import StrictRoute
from triggers.control.trigger_entry import check_replay_approved
from triggers.role_context import RoleContext
from workers.control.change_result import read_run
from workers.control.run_answers import InvalidAnswerError, submit_answer
from workers.control.run_cancellation import cancel
from workers.control.run_replay import ReplayOptions, replay
from workers.store.run import RunRequest, TriggerEvent
from workers.store.storable import check_storable

RunId = Annotated[
    str, Path(description="As returned when the run was accepted.", examples=["run_01KC0000000000000000000000"])
]
IdempotencyKey = Annotated[
    IdempotencyKeyText | None,
    Header(
        alias="Idempotency-Key",
        description="Any key of yours: the same key with the same body, within 7 days, is the same run.",
    ),
]

_RUN_OPERATIONS = ("show_run", "list_turns", "cancel_run", "replay_run", "answer_run")

TRIGGER_TYPE = "api"
TRIGGER_NAME = "http"  # beside "cli" for runs that a command started


def _run_links(id_field: str) -> dict[str, Any]:
    """Links the operations of the run whose id is in this field of a response."""
    links = {
        name: {"operationId": name, "parameters": {"run_id": f"$response.body#/{id_field}"}} for name in _RUN_OPERATIONS
    }
    return {"links": links}


def run_routes(context: RoleContext) -> APIRouter:
    router = APIRouter(tags=["Runs"], route_class=StrictRoute)
    _add_read_routes(router, context)
    _add_start_route(router, context)
    _add_change_routes(router, context)
    _add_answer_route(router, context)
    return router


def _add_read_routes(router: APIRouter, context: RoleContext) -> None:
    store = context.store

    @router.get(
        "/runs",
        response_model=RunPage,
        summary="List runs",
        operation_id="list_runs",
        responses=problem_responses(403, 404),
    )
    async def list_runs(_caller: Reader, run_filter: RunFilterParams, paging: PagingParams) -> Response:
        """The newest first, without inputs, contexts and histories, which may be large. New runs do not shift later
        pages."""
        return await runs_page_response(store, run_filter, paging)

    @router.get(
        "/runs/{run_id}",
        response_model=Run,
        summary="Show a run",
        operation_id="show_run",
        responses=problem_responses(404),
    )
    async def show_run(caller: Reader, run_id: RunId) -> Response:
        """All of one run except its turns, with its cost so far."""
        return await run_details_response(store, caller, run_id)

    @router.get(
        "/runs/{run_id}/turns",
        response_model=TurnPage,
        summary="List a run's turns",
        operation_id="list_turns",
        responses=problem_responses(404),
    )
    async def list_turns(caller: Reader, run_id: RunId, paging: PagingParams) -> Response:
        """In order: agent, text, tool calls and changes of each turn. A page of large turns may have fewer than
        `limit`."""
        return await turns_page_response(store, caller, run_id, paging)


def _add_start_route(router: APIRouter, context: RoleContext) -> None:
    keys = IdempotencyKeys(context.database)

    @router.post(
        "/runs",
        status_code=202,
        response_model=AcceptedRun,
        summary="Start a run",
        operation_id="start_run",
        response_description="A new run, which is durable",
        responses={
            200: {"model": AcceptedRun, "description": "The run that this key started before"},
            202: _run_links("run_id"),
            **problem_responses(403, 404, 409),
        },
    )
    async def start_run(caller: Writer, new_run: NewRun, idempotency_key: IdempotencyKey = None) -> Response:
        """Returns when the run is durable: no failure of this server can lose it."""
        return await submit_run(context, keys, caller, new_run, idempotency_key)


def _add_change_routes(router: APIRouter, context: RoleContext) -> None:
    store, wake = context.store, context.wakeups
    common = problem_responses(403, 404, 409)

    @router.post(
        "/runs/{run_id}/cancel",
        response_model=ChangedRun,
        summary="Cancel a run",
        operation_id="cancel_run",
        responses=dict(common),
    )
    async def cancel_run(caller: Writer, run_id: RunId) -> Response:
        """A waiting run ends at once, a running one with its worker's next heartbeat."""
        done = await cancel(store, run_id, by=caller.name, app_id=caller.scope)
        return api_response(done.as_json())

    @router.post(
        "/runs/{run_id}/replay",
        response_model=ChangedRun,
        summary="Replay a run",
        operation_id="replay_run",
        responses={200: _run_links("new_run_id"), **common},
    )
    async def replay_run(caller: Writer, run_id: RunId, body: ReplayRequest | None = None) -> Response:
        """Starts it again from its first turn, as the run `new_run_id`. Repeating this call starts nothing twice. A run
        whose tools or write-backs succeeded is refused, unless `repeat_done` allows to repeat them."""
        options = ReplayOptions() if body is None else ReplayOptions(**body.model_dump())
        await check_replay_approved(context, store, run_id, app_id=caller.scope, may_approve=caller.may_approve)
        done = await replay(store, wake, run_id, by=caller.name, app_id=caller.scope, options=options)
        return api_response(done.as_json(), 200, {"location": f"/v1/runs/{done.new_run_id}"})


def _add_answer_route(router: APIRouter, context: RoleContext) -> None:
    store, wake = context.store, context.wakeups

    @router.post(
        "/runs/{run_id}/answer",
        response_model=AnsweredRun,
        summary="Answer a run",
        operation_id="answer_run",
        responses=problem_responses(403, 404, 409),
    )
    async def answer_run(caller: Approver, run_id: RunId, body: RunAnswer) -> Response:
        """Answers one question of a run that waits (`needs_human`). The run goes on where it stopped when each of its
        questions is answered. Requires a key created with `--may approve`."""
        fields = body.model_dump(exclude={"by"})
        await read_run(store, run_id, caller.scope)  # 404 for an unknown run comes before 422 for its answer
        try:
            done = await submit_answer(store, wake, run_id, by=caller.name, name=body.by, app_id=caller.scope, **fields)
        except InvalidAnswerError as error:
            raise invalid_fields(_answer_errors(str(error))) from None
        result = {"run_id": done.run_id, "answer": done.number, "repeated": done.repeated}
        return api_response({**result, "waiting": list(done.waiting)})


_ANSWER_FIELDS = frozenset({"question", "message", "responses", "by"})


def _answer_errors(text: str) -> dict[str, str]:
    """Splits the text, which begins with the name of an invalid field."""
    name, colon, sentence = text.partition(": ")
    return {name: sentence} if colon and name in _ANSWER_FIELDS else {"body": text}


async def submit_run(
    context: RoleContext, keys: IdempotencyKeys, caller: Caller, new_run: NewRun, idempotency_key: str | None
) -> Response:
    app_id = caller.resolve_app(new_run.app_id)
    key = None if idempotency_key is None else unquote_key(idempotency_key)
    _check_workflow(context, caller, new_run.workflow)
    check_storable(new_run.input)
    check_storable(new_run.message, path="message")
    body = {**new_run.model_dump(mode="json"), "app_id": app_id}
    event_id = str(ULID()) if key is None else await keys.event_id(key, app_id, body)
    request = RunRequest(
        app_id=app_id,
        workflow=new_run.workflow,
        trigger=TriggerEvent(type=TRIGGER_TYPE, name=TRIGGER_NAME, id=event_id, fired_at=datetime.now(UTC)),
        input=new_run.input,
        message=new_run.message,
        user_id=new_run.user_id,
        chat_id=new_run.chat_id,
        priority=new_run.priority,
        not_before=new_run.not_before,
    )
    accepted = await context.acceptance.accept(request)
    return accepted_run_response(accepted.run_id, 202 if accepted.created else 200)


def accepted_run_response(run_id: str, status: int) -> Response:
    address = f"/v1/runs/{run_id}"
    return api_response({"run_id": run_id, "status_url": address}, status, {"location": address})


def _check_workflow(context: RoleContext, caller: Caller, workflow: str) -> None:
    """Lists the packages only for a key of all apps."""
    if context.catalog.get(workflow) is not None:
        return
    if caller.scope is not None:
        raise workflow_not_found(f"there is no workflow {workflow}")
    reason = context.catalog.explain_refusal(workflow)
    if reason is not None:
        raise workflow_not_found(reason)
    known = ", ".join(sorted(context.catalog.packages())) or "none"
    raise workflow_not_found(f"there is no workflow {workflow}; there are: {known}")
