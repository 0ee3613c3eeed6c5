"""The webhook endpoint: POST /hooks/{app}/{workflow}/{trigger}."""

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse

from triggers.gateway.body import is_json, media_type, parse_json, read_body, refuse_declared_too_large
from triggers.gateway.event import with_request
from triggers.gateway.place import Place, check_app, find_trigger, not_found
from triggers.gateway.problems import ProblemError
from triggers.gateway.reception import Answer, Reception, accepted_answer, trigger_id_of
from triggers.payload import PayloadError, holds, resolve_text
from triggers.webhook.secrets import Secrets
from triggers.webhook.verification import SCHEMES, SignatureError
from workflows.package.trigger_specs.webhook import WebhookSpec

log = logging.getLogger(__name__)


def webhook_endpoint(reception: Reception) -> Callable[[Request], Awaitable[Answer]]:
    known_secrets = Secrets(reception.settings)

    async def receive_webhook(request: Request) -> Answer:
        """The order is the contract: size, address, kind, signature, content, condition, then a durable run."""
        limit_bytes = reception.settings.body_limit_bytes
        place = Place.of(request)
        await refuse_declared_too_large(request, limit_bytes)
        spec = find_trigger(reception.catalog.packages(), place, WebhookSpec)
        secrets = known_secrets.of(spec, workflow=place.workflow)
        if not secrets:  # inactive until its secret is there; the operator's log says so, the caller learns nothing
            raise not_found()
        if not is_json(media_type(request)):
            raise ProblemError(415, "send application/json")
        raw_body = await read_body(request, limit_bytes)
        delivery_id = _verified(spec, place, request, raw_body, secrets=secrets)
        event = with_request(parse_json(raw_body), request)
        if not _wanted(spec, place, event):
            return Answer("skipped", JSONResponse({"skipped": True}))
        trigger_id = trigger_id_of(delivery_id or _dedupe_value(spec, event))
        return accepted_answer(await reception.accept(spec, place, event, trigger_id=trigger_id))

    return receive_webhook


def _verified(
    spec: WebhookSpec, place: Place, request: Request, raw_body: bytes, *, secrets: tuple[str, ...]
) -> str | None:
    verify = SCHEMES[spec.verify.scheme]
    now = datetime.now(UTC)
    try:
        return verify(request.headers, raw_body, secrets=secrets, now=now, tolerance=spec.verify.tolerance)
    except SignatureError as error:
        who = {"app_id": place.app, "workflow": place.workflow, "trigger": spec.name}
        log.warning("webhook_not_verified", extra={**who, "reason": error.reason})
        raise ProblemError(401, "the signature does not verify") from None


def _wanted(spec: WebhookSpec, place: Place, event: Any) -> bool:
    try:
        check_app(spec, place, event)
        return holds(spec.when, event)
    except PayloadError:
        raise ProblemError(400, "the trigger's expressions cannot be computed from this body") from None


def _dedupe_value(spec: WebhookSpec, event: Any) -> str | None:
    try:
        return resolve_text(spec.dedupe, event)
    except PayloadError:
        raise ProblemError(400, "the trigger's `dedupe` cannot be computed from this body") from None
