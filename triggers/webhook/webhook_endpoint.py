"""The webhook endpoint: POST /hooks/{app}/{workflow}/{trigger}."""

import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request

from triggers.bounded_cache import BoundedCache
from triggers.event_expressions import ExpressionEvaluator, is_condition_met, resolve_text
from triggers.gateway.endpoint_response import EndpointResponse, accepted_response, json_response
from triggers.gateway.http_problems import ProblemError
from triggers.gateway.request_body import check_declared_size, read_body
from triggers.gateway.trigger_address import TriggerAddress, build_event, check_app, decode_headers, trigger_not_found
from triggers.gateway.trigger_intake import TriggerIntake, normalize_event_id
from triggers.gateway.trigger_lookup import TriggerTarget
from triggers.register.trigger import Trigger
from triggers.register.trigger_stats import TriggerStats
from triggers.token_bucket import TokenBuckets
from triggers.webhook import cloud_events
from triggers.webhook.request_content import DeclaredContent, declared_content, parse_body
from triggers.webhook.schemes import slack
from triggers.webhook.schemes.signature_parts import RefusalReason, SignatureError
from triggers.webhook.signature_check import SCHEMES, check_signature
from triggers.webhook.webhook_secrets import WebhookSecrets
from workflows.context.expressions.bounded_expression import StepBudget
from workflows.package.trigger_specs.webhook_spec import WebhookSpec

log = logging.getLogger(__name__)

LOG_INTERVAL_S = 60.0
MAX_LOGGED_TRIGGERS = 10_000


def webhook_endpoint(intake: TriggerIntake) -> Callable[[Request], Awaitable[EndpointResponse]]:
    known_secrets = WebhookSecrets(intake.settings)
    refusal_log = RefusalLog(intake.stats)
    rates = TokenBuckets()
    limit_bytes = intake.settings.body_limit_bytes

    async def receive_webhook(request: Request) -> EndpointResponse:
        """Checks size, address, kind, signature, content, condition, rate, in order."""
        address = TriggerAddress.from_request(request)
        check_declared_size(request, limit_bytes)
        target = await intake.lookup.find(WebhookSpec, address)
        secrets = known_secrets.resolve(target.trigger, target.spec)
        if secrets is None:  # inactive: the operator's log has the reason, and the caller learns nothing
            raise trigger_not_found()
        call = _WebhookCall(intake, target, address, decode_headers(request))
        declared = call.declared_content()
        raw_body = await read_body(request, limit_bytes)
        delivery_id = call.verify_signature(raw_body, secrets, refusal_log)
        body = call.parse_body(raw_body, declared)
        challenge = slack.find_challenge(body) if target.spec.verify.scheme == "slack" else None
        if challenge is not None:
            return EndpointResponse("answered", json_response({"challenge": challenge}))
        intake.check_not_paused(target, address)
        event = call.build_event(body, request)
        evaluator = intake.evaluator(event)
        dedupe_id = delivery_id or await call.dedupe_id(event, declared, evaluator)
        if not await call.matches_condition(event, evaluator):
            return call.skip(dedupe_id)
        call.check_rate(rates)
        event_id = normalize_event_id(dedupe_id)
        return accepted_response(
            await intake.accept(target, address, event, event_id=event_id, evaluator=evaluator),
        )

    return receive_webhook


@dataclass(frozen=True, slots=True)
class _WebhookCall:
    """One call to a trigger that was found. Each step raises its own refusal."""

    intake: TriggerIntake
    target: TriggerTarget[WebhookSpec]
    address: TriggerAddress
    headers: Mapping[str, str]

    def declared_content(self) -> DeclaredContent:
        # Counted without a note: the caller has not proven itself, and notes have room for few.
        with self._counting_refusal("unsupported_body", keep_note=False):
            return declared_content(self.target.spec, self.headers)

    def verify_signature(self, raw_body: bytes, secrets: tuple[str, ...], refusal_log: "RefusalLog") -> str | None:
        """Returns the delivery id, if a header has one."""
        options = self.target.spec.verify
        try:
            return check_signature(self.headers, raw_body, secrets=secrets, options=options, now=datetime.now(UTC))
        except SignatureError as error:
            refusal_log.record(self.target.trigger, error.reason, app_id=self.address.app)
            invitation = SCHEMES[options.scheme].www_authenticate
            headers = {} if invitation is None else {"www-authenticate": invitation}
            raise ProblemError(401, "the signature does not verify", headers=headers) from None

    def parse_body(self, raw_body: bytes, declared: DeclaredContent) -> Any:
        with self._counting_refusal("invalid_body"):
            return parse_body(declared, self.headers, raw_body)

    def build_event(self, body: Any, request: Request) -> Any:
        secret_header = self.target.spec.verify.header
        return build_event(
            body,
            request,
            headers=self.headers,
            secret_header=None if secret_header is None else secret_header.lower(),
        )

    async def dedupe_id(self, event: Any, declared: DeclaredContent, evaluator: ExpressionEvaluator) -> str | None:
        """Returns the event's id where the scheme has no header for it.

        None: each call is a run of its own.
        """
        spec = self.target.spec
        key = SCHEMES[spec.verify.scheme].id_in_body
        id_in_body = event.get(key) if key is not None and isinstance(event, dict) else None
        if isinstance(id_in_body, str) and id_in_body:
            return id_in_body
        detail = "the trigger's `dedupe` cannot be computed from this body"
        with self.intake.refusing_expressions(self.target.trigger, self.address, "not_computed", detail):
            computed = await evaluator.evaluate(lambda budget: resolve_text(spec.dedupe, event, budget))
        return computed or (cloud_events.cloud_event_id(event) if declared.cloud_event is not None else None)

    async def matches_condition(self, event: Any, evaluator: ExpressionEvaluator) -> bool:
        """Raises 404 when the event names another app than the address."""

        def is_match(budget: StepBudget) -> bool:
            check_app(self.target.spec, self.address, event, budget)
            return is_condition_met(self.target.spec.when, event, budget)

        with self.intake.refusing_expressions(self.target.trigger, self.address, "not_computed"):
            return await evaluator.evaluate(is_match)

    def skip(self, dedupe_id: str | None) -> EndpointResponse:
        event_id = normalize_event_id(dedupe_id) if dedupe_id else None
        self.intake.stats.record_skip(self.target.trigger, "when", app_id=self.address.app, event_id=event_id)
        return EndpointResponse("skipped", json_response({"skipped": True}))

    def check_rate(self, rates: TokenBuckets) -> None:
        spec = self.target.spec
        if spec.rate_limit is None:
            return
        calls, seconds = spec.rate_limit
        name = f"{self.target.trigger.id} {self.address.app}"
        decision = rates.try_acquire(name, per_s=calls / seconds, burst=calls)
        if not decision.is_allowed:
            self.intake.stats.record_refusal(self.target.trigger, "rate", app_id=self.address.app)
            headers = {"retry-after": str(max(math.ceil(decision.wait_s), 1))}
            raise ProblemError(429, f"more than {spec.rate} calls; try again later", headers=headers)

    @contextmanager
    def _counting_refusal(self, reason: str, *, keep_note: bool = True) -> Iterator[None]:
        try:
            yield
        except ProblemError:
            stats = self.intake.stats
            stats.record_refusal(self.target.trigger, reason, app_id=self.address.app, keep_note=keep_note)
            raise


class RefusalLog:
    """Counts unverified calls, and logs one line a minute per trigger and reason."""

    def __init__(self, stats: TriggerStats, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stats = stats
        self._clock = clock
        # The time of the last line, and the number of calls since then.
        self._logged: BoundedCache[tuple[float, int]] = BoundedCache(MAX_LOGGED_TRIGGERS)

    def record(self, trigger: Trigger, reason: RefusalReason, *, app_id: str) -> None:
        self._stats.record_refusal(trigger, reason, app_id=app_id, keep_note=False)
        now, key = self._clock(), f"{trigger.id} {reason}"
        logged_at, unlogged = self._logged.get(key) or (float("-inf"), 0)
        if now - logged_at < LOG_INTERVAL_S:
            self._logged.put(key, (logged_at, unlogged + 1))
            return
        self._logged.put(key, (now, 0))
        log.warning(
            "webhook_not_verified",
            extra={
                "app_id": app_id,
                "workflow": trigger.workflow,
                "trigger": trigger.spec.name,
                "reason": reason,
                "calls": unlogged + 1,
            },
        )
