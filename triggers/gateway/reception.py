"""The reception: what webhooks and forms share, from the trigger in the address to the durable run."""

import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from pymongo.errors import PyMongoError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from ulid import ULID

from triggers.acceptance import Acceptance
from triggers.gateway.metrics import RESULT_BY_STATUS, Endpoint, GatewayMetrics, Result
from triggers.gateway.place import Place
from triggers.gateway.problems import ProblemError
from triggers.payload import PayloadError, resolve, resolve_text
from workers.settings import Settings
from workers.store.run import Accepted, RunRequest, TriggerEvent
from workers.store.storable import NotStorableError
from workflows.package.models import Package
from workflows.package.trigger_specs.form import FormSpec
from workflows.package.trigger_specs.webhook import WebhookSpec

MAX_ID_LENGTH = 200


class Packages(Protocol):
    def packages(self) -> Mapping[str, Package]: ...


@dataclass(frozen=True, slots=True)
class Reception:
    settings: Settings
    catalog: Packages
    acceptance: Acceptance
    metrics: GatewayMetrics

    async def accept(self, spec: WebhookSpec | FormSpec, place: Place, event: Any, *, trigger_id: str) -> Accepted:
        """Durable when it returns. An event that cannot be mapped or kept is the sender's to change: 400."""
        try:
            request = _run_request(spec, place, event, trigger_id=trigger_id)
            accepted = await self.acceptance.accept(request)
        except PayloadError:
            raise ProblemError(400, "the trigger's expressions cannot be computed from this body") from None
        except NotStorableError as error:
            raise ProblemError(400, str(error)) from None
        if not accepted.created:
            self.metrics.duplicate_dropped(place.workflow, spec.name)
        return accepted


@dataclass(frozen=True, slots=True)
class Answer:
    result: Result
    response: Response


def accepted_answer(accepted: Accepted) -> Answer:
    body = {"run_id": accepted.run_id, "status_url": f"/v1/runs/{accepted.run_id}"}
    if accepted.created:
        return Answer("accepted", JSONResponse(body, 202))
    return Answer("duplicate", JSONResponse(body, 200))


def trigger_id_of(text: str | None) -> str:
    """What names this happening in the dedupe key; without a name it is unlike any other."""
    if not text:
        return str(ULID())
    if len(text) <= MAX_ID_LENGTH and text.isascii() and text.isprintable():
        return text
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def counted(
    endpoint: Endpoint, metrics: GatewayMetrics, handle: Callable[[Request], Awaitable[Answer]]
) -> Callable[[Request], Awaitable[Response]]:
    async def measured(request: Request) -> Response:
        started = time.perf_counter()
        result: Result = "error"
        try:
            answer = await handle(request)
            result = answer.result
            return answer.response
        except ProblemError as problem:
            result = RESULT_BY_STATUS.get(problem.status, "error")
            raise
        except PyMongoError:
            result = "unavailable"
            raise
        finally:
            metrics.answered(endpoint, result, seconds=time.perf_counter() - started)

    return measured


def _run_request(spec: WebhookSpec | FormSpec, place: Place, event: Any, *, trigger_id: str) -> RunRequest:
    run_input = resolve(spec.input, event)
    if isinstance(spec, FormSpec) and not spec.input:
        run_input = {name: value for name, value in event.items() if name in spec.inputs}
    return RunRequest(
        app_id=place.app,
        workflow=place.workflow,
        trigger=TriggerEvent(type=spec.type, name=spec.name, id=trigger_id, fired_at=datetime.now(UTC)),
        input=run_input,
        message=resolve_text(spec.message, event),
        priority=spec.priority,
    )
