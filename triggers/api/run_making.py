"""Making a run over HTTP: a body and perhaps an Idempotency-Key become a durable run."""

from datetime import UTC, datetime

from fastapi import Response
from ulid import ULID

from triggers.api.access import Caller
from triggers.api.answers import api_response
from triggers.api.idempotency import IdempotencyKeys, unquote_key
from triggers.api.problems import workflow_not_found
from triggers.api.run_models import NewRun
from triggers.role import RoleContext
from workers.store.run import RunRequest, TriggerEvent
from workers.store.storable import check_storable

TRIGGER_TYPE = "api"
TRIGGER_NAME = "http"  # beside "cli" for runs that a command started


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
    """The names of the packages are told to whoever may see all apps; another app's packages are not its affair."""
    if context.catalog.get(workflow) is not None:
        return
    if caller.scope is not None:
        raise workflow_not_found(f"there is no workflow {workflow}")
    why = context.catalog.explain_refusal(workflow)
    if why is not None:
        raise workflow_not_found(why)
    known = ", ".join(sorted(context.catalog.packages())) or "none"
    raise workflow_not_found(f"there is no workflow {workflow}; there are: {known}")
