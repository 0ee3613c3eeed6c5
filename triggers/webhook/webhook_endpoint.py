"""The webhook endpoint: POST /hooks/{app}/{workflow}/{trigger}."""

import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from starlette.requests import Request

from triggers.event_expressions import ExpressionError, ExpressionEvaluator, is_condition_met, resolve_text
from triggers.gateway.http_problems import ProblemError
from triggers.gateway.request_body import check_declared_size, read_body
from triggers.gateway.trigger_intake import (
    EXPRESSIONS_FAILED,
    EndpointResponse,
    TriggerIntake,
    accepted_response,
    json_response,
    normalize_event_id,
)
from triggers.gateway.trigger_lookup import TriggerTarget
from triggers.gateway.trigger_request import TriggerAddress, build_event, check_app, decode_headers, trigger_not_found
from triggers.register.trigger import Trigger
from triggers.token_bucket import TokenBuckets
from triggers.webhook import cloud_events, request_content
from triggers.webhook.schemes import slack
from triggers.webhook.schemes.scheme_registry import SCHEMES, SignatureError
from triggers.webhook.schemes.signature_check import RefusalReason
from triggers.webhook.webhook_secrets import WebhookSecrets
from workflows.context.expressions.bounded_expression import StepBudget
from workflows.package.trigger_specs.webhook_spec import WebhookSpec

log = logging.getLogger(__name__)

LOG_INTERVAL_S = 60.0
MAX_LOGGED_TRIGGERS = 10_000


def webhook_endpoint(intake: TriggerIntake) -> Callable[[Request], Awaitable[EndpointResponse]]:
    desk = _WebhookSteps(intake)
    known_secrets = WebhookSecrets(intake.settings)
    limit_bytes = intake.settings.body_limit_bytes

    async def receive_webhook(request: Request) -> EndpointResponse:
        """The order is the contract: size, address, kind, signature, content, condition, rate, then a durable run."""
        place = TriggerAddress.from_request(request)
        check_declared_size(request, limit_bytes)
        found = await intake.find(WebhookSpec, place)
        secrets = known_secrets.resolve(found.trigger, found.spec)
        if secrets is None:  # inactive: the operator's log says why, the caller learns nothing
            raise trigger_not_found()
        headers = decode_headers(request)
        announced = desk.declared_content(found, place, headers)
        raw_body = await read_body(request, limit_bytes)
        delivery_id = desk.verify_signature(found, place, headers, raw_body, secrets=secrets)
        body = desk.parse_body(found, place, headers, raw_body, declared=announced)
        challenge = slack.find_challenge(body) if found.spec.verify.scheme == "slack" else None
        if challenge is not None:
            return EndpointResponse("answered", json_response({"challenge": challenge}))
        intake.check_not_paused(found, place)
        event = build_event(body, request, headers=headers, secret_header=_lower(found.spec.verify.header))
        computation = ExpressionEvaluator(event)
        name = delivery_id or await desk.dedupe_id(found, place, event, declared=announced, evaluator=computation)
        if not await desk.matches_condition(found, place, event, computation):
            event_id = normalize_event_id(name) if name else None
            intake.stats.record_skip(found.trigger, "when", app_id=place.app, event_id=event_id)
            return EndpointResponse("skipped", json_response({"skipped": True}))
        desk.check_rate(found, place)
        trigger_id = normalize_event_id(name)
        return accepted_response(await intake.accept(found, place, event, event_id=trigger_id, evaluator=computation))

    return receive_webhook


class _WebhookSteps:
    """The steps, each with its own refusal."""

    def __init__(self, intake: TriggerIntake) -> None:
        self._intake = intake
        self._refusal_log = RefusalLog(intake.stats)
        self._rates = TokenBuckets()

    def declared_content(
        self, target: TriggerTarget[WebhookSpec], address: TriggerAddress, headers: Mapping[str, str]
    ) -> request_content.DeclaredContent:
        try:
            return request_content.declared_content(target.spec, headers)
        except ProblemError:
            # Nobody has proven anything yet: counted only.
            self._intake.stats.record_refusal(target.trigger, "unsupported_body", app_id=address.app, keep_note=False)
            raise

    def verify_signature(
        self,
        target: TriggerTarget[WebhookSpec],
        address: TriggerAddress,
        headers: Mapping[str, str],
        raw_body: bytes,
        *,
        secrets: tuple[str, ...],
    ) -> str | None:
        """The delivery id, where a header gives one."""
        options = target.spec.verify
        rules = SCHEMES[options.scheme]
        try:
            return rules.verify(headers, raw_body, secrets=secrets, options=options, now=datetime.now(UTC))
        except SignatureError as error:
            self._refusal_log.record(target.trigger, error.reason, app_id=address.app)
            asking = {} if rules.www_authenticate is None else {"www-authenticate": rules.www_authenticate}
            raise ProblemError(401, "the signature does not verify", headers=asking) from None

    def parse_body(
        self,
        target: TriggerTarget[WebhookSpec],
        address: TriggerAddress,
        headers: Mapping[str, str],
        raw_body: bytes,
        *,
        declared: request_content.DeclaredContent,
    ) -> Any:
        try:
            return request_content.parse_body(declared, headers, raw_body)
        except ProblemError:
            self._intake.stats.record_refusal(target.trigger, "invalid_body", app_id=address.app)
            raise

    async def dedupe_id(
        self,
        target: TriggerTarget[WebhookSpec],
        address: TriggerAddress,
        event: Any,
        *,
        declared: request_content.DeclaredContent,
        evaluator: ExpressionEvaluator,
    ) -> str | None:
        """What tells this event from any other, where no header of the scheme does; None when nothing does."""
        key = SCHEMES[target.spec.verify.scheme].id_in_body
        given = event.get(key) if key is not None and isinstance(event, dict) else None
        if isinstance(given, str) and given:
            return given
        try:
            by_author = await self._intake.evaluate(
                evaluator, lambda effort: resolve_text(target.spec.dedupe, event, effort)
            )
        except ExpressionError:
            detail = "the trigger's `dedupe` cannot be computed from this body"
            raise self._intake.body_refusal(target.trigger, address, "not_computed", detail) from None
        return by_author or (cloud_events.cloud_event_id(event) if declared.cloud_event is not None else None)

    async def matches_condition(
        self, target: TriggerTarget[WebhookSpec], address: TriggerAddress, event: Any, evaluator: ExpressionEvaluator
    ) -> bool:
        def is_wanted(effort: StepBudget) -> bool:
            check_app(target.spec, address, event, effort)
            return is_condition_met(target.spec.when, event, effort)

        try:
            return await self._intake.evaluate(evaluator, is_wanted)
        except ExpressionError:
            raise self._intake.body_refusal(target.trigger, address, "not_computed", EXPRESSIONS_FAILED) from None

    def check_rate(self, target: TriggerTarget[WebhookSpec], address: TriggerAddress) -> None:
        rate = target.spec.rate_limit
        if rate is None:
            return
        calls, seconds = rate
        taken = self._rates.try_acquire(f"{target.trigger.id} {address.app}", per_s=calls / seconds, burst=calls)
        if not taken.is_allowed:
            self._intake.stats.record_refusal(target.trigger, "rate", app_id=address.app)
            headers = {"retry-after": str(max(math.ceil(taken.wait_s), 1))}
            raise ProblemError(429, f"more than {target.spec.rate} calls; try again later", headers=headers)


def _lower(header: str | None) -> str | None:
    return None if header is None else header.lower()


class RefusalCounter(Protocol):
    """Where refusals are counted: a Tally."""

    def record_refusal(
        self, trigger: Trigger, reason: str, *, app_id: str | None = None, keep_note: bool = True
    ) -> None: ...


class RefusalLog:
    def __init__(self, stats: RefusalCounter, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stats = stats
        self._clock = clock
        self._logged: dict[tuple[str, str], tuple[float, int]] = {}  # when, and how many calls since then

    def record(self, trigger: Trigger, reason: RefusalReason, *, app_id: str) -> None:
        self._stats.record_refusal(trigger, reason, app_id=app_id, keep_note=False)
        now, key = self._clock(), (trigger.id, reason)
        at, unsaid = self._logged.get(key, (float("-inf"), 0))
        if now - at < LOG_INTERVAL_S:
            self._logged[key] = at, unsaid + 1
            return
        if len(self._logged) >= MAX_LOGGED_TRIGGERS:
            self._logged.clear()
        self._logged[key] = now, 0
        who = {"app_id": app_id, "workflow": trigger.workflow, "trigger": trigger.spec.name}
        log.warning("webhook_not_verified", extra={**who, "reason": reason, "calls": unsaid + 1})
