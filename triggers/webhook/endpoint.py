"""The webhook endpoint: POST /hooks/{app}/{workflow}/{trigger}."""

import math
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request

from triggers.computation import Computation
from triggers.gateway.body import read_body, refuse_declared_too_large
from triggers.gateway.event import plain_headers, with_request
from triggers.gateway.place import Place, check_app, not_found
from triggers.gateway.problems import ProblemError
from triggers.gateway.reception import NOT_COMPUTED, Answer, Reception, accepted_answer, json_response, trigger_id_of
from triggers.payload import PayloadError, holds, resolve_text
from triggers.register.lookup import Found
from triggers.token_bucket import TokenBuckets
from triggers.webhook import cloud_events, content, slack
from triggers.webhook.refusals import Refusals
from triggers.webhook.secrets import Secrets
from triggers.webhook.verification import SCHEMES, SignatureError
from workflows.context.bounded_expression import Effort
from workflows.package.trigger_specs.webhook import WebhookSpec


def webhook_endpoint(reception: Reception) -> Callable[[Request], Awaitable[Answer]]:
    desk = _Desk(reception)
    known_secrets = Secrets(reception.settings)
    limit_bytes = reception.settings.body_limit_bytes

    async def receive_webhook(request: Request) -> Answer:
        """The order is the contract: size, address, kind, signature, content, condition, rate, then a durable run."""
        place = Place.of(request)
        refuse_declared_too_large(request, limit_bytes)
        found = await reception.find(WebhookSpec, place)
        secrets = known_secrets.of(found.trigger, found.spec)
        if secrets is None:  # inactive: the operator's log says why, the caller learns nothing
            raise not_found()
        headers = plain_headers(request)
        announced = desk.announced(found, place, headers)
        raw_body = await read_body(request, limit_bytes)
        delivery_id = desk.verified(found, place, headers, raw_body, secrets=secrets)
        body = desk.parsed(found, place, headers, raw_body, announced=announced)
        challenge = slack.challenge_of(body) if found.spec.verify.scheme == "slack" else None
        if challenge is not None:
            return Answer("answered", json_response({"challenge": challenge}))
        reception.check_open(found, place)
        event = with_request(body, request, headers=headers, secret_header=_lower(found.spec.verify.header))
        computation = Computation(event)
        name = delivery_id or await desk.name_of(found, place, event, announced=announced, computation=computation)
        if not await desk.wanted(found, place, event, computation):
            event_id = trigger_id_of(name) if name else None
            reception.tally.skipped(found.trigger, "when", app_id=place.app, event_id=event_id)
            return Answer("skipped", json_response({"skipped": True}))
        desk.check_rate(found, place)
        trigger_id = trigger_id_of(name)
        return accepted_answer(
            await reception.accept(found, place, event, trigger_id=trigger_id, computation=computation)
        )

    return receive_webhook


class _Desk:
    """The steps, each with its own refusal."""

    def __init__(self, reception: Reception) -> None:
        self._reception = reception
        self._refusals = Refusals(reception.tally)
        self._rates = TokenBuckets()

    def announced(self, found: Found[WebhookSpec], place: Place, headers: Mapping[str, str]) -> content.Content:
        try:
            return content.content_of(found.spec, headers)
        except ProblemError:
            # Nobody has proven anything yet: counted only.
            self._reception.tally.refused(found.trigger, "unsupported_body", app_id=place.app, noted=False)
            raise

    def verified(
        self,
        found: Found[WebhookSpec],
        place: Place,
        headers: Mapping[str, str],
        raw_body: bytes,
        *,
        secrets: tuple[str, ...],
    ) -> str | None:
        """The delivery id, where a header gives one."""
        options = found.spec.verify
        rules = SCHEMES[options.scheme]
        try:
            return rules.verify(headers, raw_body, secrets=secrets, options=options, now=datetime.now(UTC))
        except SignatureError as error:
            self._refusals.note(found.trigger, error.reason, app_id=place.app)
            asking = {} if rules.asks_for is None else {"www-authenticate": rules.asks_for}
            raise ProblemError(401, "the signature does not verify", headers=asking) from None

    def parsed(
        self,
        found: Found[WebhookSpec],
        place: Place,
        headers: Mapping[str, str],
        raw_body: bytes,
        *,
        announced: content.Content,
    ) -> Any:
        try:
            return content.parse(announced, headers, raw_body)
        except ProblemError:
            self._reception.tally.refused(found.trigger, "invalid_body", app_id=place.app)
            raise

    async def name_of(
        self,
        found: Found[WebhookSpec],
        place: Place,
        event: Any,
        *,
        announced: content.Content,
        computation: Computation,
    ) -> str | None:
        """What tells this event from any other, where no header of the scheme does; None when nothing does."""
        key = SCHEMES[found.spec.verify.scheme].id_in_body
        given = event.get(key) if key is not None and isinstance(event, dict) else None
        if isinstance(given, str) and given:
            return given
        try:
            by_author = await self._reception.compute(
                computation, lambda effort: resolve_text(found.spec.dedupe, event, effort)
            )
        except PayloadError:
            detail = "the trigger's `dedupe` cannot be computed from this body"
            raise self._reception.refused_body(found.trigger, place, "not_computed", detail) from None
        return by_author or (cloud_events.name_of(event) if announced.cloud_event is not None else None)

    async def wanted(self, found: Found[WebhookSpec], place: Place, event: Any, computation: Computation) -> bool:
        def is_wanted(effort: Effort) -> bool:
            check_app(found.spec, place, event, effort)
            return holds(found.spec.when, event, effort)

        try:
            return await self._reception.compute(computation, is_wanted)
        except PayloadError:
            raise self._reception.refused_body(found.trigger, place, "not_computed", NOT_COMPUTED) from None

    def check_rate(self, found: Found[WebhookSpec], place: Place) -> None:
        rate = found.spec.calls_per_s
        if rate is None:
            return
        calls, seconds = rate
        taken = self._rates.take(f"{found.trigger.id} {place.app}", per_s=calls / seconds, burst=calls)
        if not taken.allowed:
            self._reception.tally.refused(found.trigger, "rate", app_id=place.app)
            headers = {"retry-after": str(max(math.ceil(taken.wait_s), 1))}
            raise ProblemError(429, f"more than {found.spec.rate} calls; try again later", headers=headers)


def _lower(header: str | None) -> str | None:
    return None if header is None else header.lower()
