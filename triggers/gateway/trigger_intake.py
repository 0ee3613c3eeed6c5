"""The reception: what webhooks and forms share, from the trigger in the address to the durable run."""

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from pymongo.errors import PyMongoError
from starlette.requests import Request
from starlette.responses import Response
from ulid import ULID

from triggers.acceptance import Acceptance
from triggers.event_expressions import ExpressionError, ExpressionEvaluator
from triggers.gateway.gateway_metrics import RESULT_BY_STATUS, Endpoint, GatewayMetrics, RequestResult
from triggers.gateway.http_problems import ProblemError, unavailable_problem
from triggers.gateway.trigger_lookup import SpecT, TriggerLookup, TriggerTarget
from triggers.gateway.trigger_request import TriggerAddress, trigger_not_found
from triggers.occurrence import MAX_APP_ID_LENGTH, Occurrence, build_run_request
from triggers.register.trigger import Trigger
from triggers.register.trigger_stats import TriggerStats
from workers.settings import Settings
from workers.store.run import Accepted
from workers.store.storable import NotStorableError
from workflows.context.expressions.bounded_expression import StepBudget

log = logging.getLogger(__name__)

MAX_EVENT_ID_LENGTH = 200
PAUSED_RETRY_AFTER_S = 60
STORE_TIMEOUT_S = 8.0  # GitHub hangs up after 10
ResultT = TypeVar("ResultT")
EXPRESSIONS_FAILED = "the trigger's expressions cannot be computed from this body"


class PausedError(ProblemError):
    """A sender that retries loses nothing: 503, and not an answer that drops the delivery."""

    def __init__(self) -> None:
        headers = {"retry-after": str(PAUSED_RETRY_AFTER_S)}
        super().__init__(503, "this trigger is paused; try again later", headers=headers)


@dataclass(frozen=True, slots=True)
class TriggerIntake:
    settings: Settings
    lookup: TriggerLookup
    acceptance: Acceptance
    metrics: GatewayMetrics
    stats: TriggerStats

    async def find(self, spec_type: type[SpecT], address: TriggerAddress) -> TriggerTarget[SpecT]:
        """Raises 404. Whether it is paused is for `check_open`, when the caller may know."""
        # An expression may name the app, and then the address may: what is no name goes into no log and no note.
        if len(address.app) > MAX_APP_ID_LENGTH or not address.app.isprintable():
            raise trigger_not_found()
        try:
            found = await self.lookup.find(
                spec_type, app_id=address.app, workflow=address.workflow, name=address.trigger
            )
        except TimeoutError:
            raise _store_unavailable("find") from None
        if found is None:
            raise trigger_not_found()
        return found

    def find_last_known(self, spec_type: type[SpecT], address: TriggerAddress) -> SpecT | None:
        """While the store does not answer."""
        return self.lookup.find_last_known(
            spec_type, app_id=address.app, workflow=address.workflow, name=address.trigger
        )

    def check_not_paused(self, target: TriggerTarget[SpecT], address: TriggerAddress) -> None:
        if target.pause is not None:
            self.stats.record_refusal(target.trigger, "paused", app_id=address.app)
            raise PausedError

    async def accept(
        self,
        target: TriggerTarget[SpecT],
        address: TriggerAddress,
        event: Any,
        *,
        event_id: str,
        run_input: Mapping[str, Any] | None = None,
        evaluator: ExpressionEvaluator | None = None,
    ) -> Accepted:
        """Durable when it returns. An event that cannot be mapped or kept is the sender's to change: 400."""
        trigger = target.trigger
        happening = Occurrence(trigger, address.app, event_id, datetime.now(UTC), event)
        try:
            request = await self.evaluate(
                evaluator or ExpressionEvaluator(event),
                lambda effort: build_run_request(happening, run_input=run_input, effort=effort),
            )
            # A store that is frozen keeps a call for longer than any sender waits. Whoever is told 503 sends again,
            # and what became durable after all is then found by its delivery id.
            async with asyncio.timeout(STORE_TIMEOUT_S):
                accepted = await self.acceptance.accept(request)
        except TimeoutError:
            raise _store_unavailable("accept") from None
        except ExpressionError:
            raise self.body_refusal(trigger, address, "not_mapped", EXPRESSIONS_FAILED) from None
        except NotStorableError as error:
            raise self.body_refusal(trigger, address, "not_storable", str(error)) from None
        if accepted.created:
            self.stats.count_accepted(trigger, at=happening.time)
        else:
            self.metrics.count_duplicate(trigger)
            self.stats.record_duplicate(trigger, app_id=address.app, event_id=event_id)
        return accepted

    async def evaluate(self, evaluator: ExpressionEvaluator, work: Callable[[StepBudget], ResultT]) -> ResultT:
        """Raises 503 if so many large events are computed that this one had no turn."""
        try:
            return await evaluator.evaluate(work)
        except TimeoutError:
            raise unavailable_problem("too many large events at once; try again") from None

    def body_refusal(self, trigger: Trigger, address: TriggerAddress, reason: str, detail: str) -> ProblemError:
        """To be raised. `reason` is from a closed set; `detail` goes to the sender alone."""
        self.stats.record_refusal(trigger, reason, app_id=address.app)
        return ProblemError(400, detail)


def _store_unavailable(step: str) -> ProblemError:
    log.error("store_unavailable", extra={"error": "TimeoutError", "step": step})
    return unavailable_problem()


@dataclass(frozen=True, slots=True)
class EndpointResponse:
    result: RequestResult
    response: Response


def accepted_response(accepted: Accepted) -> EndpointResponse:
    body = {"run_id": accepted.run_id, "status_url": f"/v1/runs/{accepted.run_id}"}
    if accepted.created:
        return EndpointResponse("accepted", json_response(body, 202))
    return EndpointResponse("duplicate", json_response(body, 200))


def json_response(body: Mapping[str, Any], status: int = 200) -> Response:
    """Starlette's own makes an encoder for each answer, which takes longer than encoding."""
    return Response(json.dumps(body), status, media_type="application/json")


def normalize_event_id(text: str | None) -> str:
    """What names this happening in the dedupe key; without a name it is unlike any other."""
    if not text:
        return str(ULID())
    if len(text) <= MAX_EVENT_ID_LENGTH and text.isascii() and text.isprintable():
        return text
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def problem_result(problem: ProblemError) -> RequestResult:
    return "paused" if isinstance(problem, PausedError) else RESULT_BY_STATUS.get(problem.status, "error")


def count_requests(
    endpoint: Endpoint, metrics: GatewayMetrics, handle: Callable[[Request], Awaitable[EndpointResponse]]
) -> Callable[[Request], Awaitable[Response]]:
    async def measured(request: Request) -> Response:
        started = time.perf_counter()
        result: RequestResult = "error"
        try:
            answer = await handle(request)
            result = answer.result
            return answer.response
        except ProblemError as problem:
            result = problem_result(problem)
            raise
        except PyMongoError:
            result = "unavailable"
            raise
        finally:
            metrics.observe_request(endpoint, result, seconds=time.perf_counter() - started)

    return measured
