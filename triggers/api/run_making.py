"""Making a run over HTTP: a body and perhaps an Idempotency-Key become a durable run."""

from datetime import UTC, datetime

from fastapi import Response
from ulid import ULID

from triggers.api.access import Caller
from triggers.api.answers import json_answer
from triggers.api.idempotency import IdempotencyKeys, unquoted
from triggers.api.problems import no_such_workflow
from triggers.api.run_models import NewRun
from triggers.role import TriggerGround
from workers.store.run import RunRequest, TriggerEvent
from workers.store.storable import check_storable

TYPE = "api"
NAME = "http"  # beside "cli" for runs that a command started


async def make_run(
    ground: TriggerGround, keys: IdempotencyKeys, caller: Caller, new: NewRun, idempotency_key: str | None
) -> Response:
    app_id = caller.app(new.app_id)
    key = None if idempotency_key is None else unquoted(idempotency_key)
    _check_workflow(ground, caller, new.workflow)
    check_storable(new.input)
    check_storable(new.message, path="message")
    body = {**new.model_dump(mode="json"), "app_id": app_id}
    event_id = str(ULID()) if key is None else await keys.event_id(key, app_id, body)
    request = RunRequest(
        app_id=app_id,
        workflow=new.workflow,
        trigger=TriggerEvent(type=TYPE, name=NAME, id=event_id, fired_at=datetime.now(UTC)),
        input=new.input,
        message=new.message,
        user_id=new.user_id,
        chat_id=new.chat_id,
        priority=new.priority,
        not_before=new.not_before,
    )
    accepted = await ground.acceptance.accept(request)
    return run_answer(accepted.run_id, 202 if accepted.created else 200)


def run_answer(run_id: str, status: int) -> Response:
    address = f"/v1/runs/{run_id}"
    return json_answer({"run_id": run_id, "status_url": address}, status, {"location": address})


def _check_workflow(ground: TriggerGround, caller: Caller, workflow: str) -> None:
    """The names of the packages are told to whoever may see all apps; another app's packages are not its affair."""
    if ground.catalog.get(workflow) is not None:
        return
    if caller.scope is not None:
        raise no_such_workflow(f"there is no workflow {workflow}")
    why = ground.catalog.why_not_started(workflow)
    if why is not None:
        raise no_such_workflow(why)
    known = ", ".join(sorted(ground.catalog.packages())) or "none"
    raise no_such_workflow(f"there is no workflow {workflow}; there are: {known}")
