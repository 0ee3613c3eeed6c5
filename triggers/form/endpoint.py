"""The form endpoint: POST /forms/{app}/{workflow}/{trigger}."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse

from triggers.form.accept_header import prefers_html
from triggers.form.body import is_form, read_fields
from triggers.form.page import accepted_location
from triggers.form.validation import FormRefusedError, validate
from triggers.gateway.body import media_type, read_body, refuse_declared_too_large
from triggers.gateway.event import with_request
from triggers.gateway.place import Place, check_app, find_trigger
from triggers.gateway.problems import ProblemError
from triggers.gateway.reception import MAX_ID_LENGTH, Answer, Reception, accepted_answer, trigger_id_of
from triggers.payload import PayloadError
from workflows.package.trigger_specs.form import FormSpec


def form_endpoint(reception: Reception) -> Callable[[Request], Awaitable[Answer]]:
    async def receive_form(request: Request) -> Answer:
        limit_bytes = reception.settings.body_limit_bytes
        place = Place.of(request)
        await refuse_declared_too_large(request, limit_bytes)
        spec = find_trigger(reception.catalog.packages(), place, FormSpec)
        kind = media_type(request)
        if not is_form(kind):
            raise ProblemError(415, "send application/json, application/x-www-form-urlencoded or multipart/form-data")
        idempotency_key = _idempotency_key(request)
        raw_body = await read_body(request, limit_bytes)
        event = with_request(await _validated(spec, request, kind, raw_body), request)
        _check_app(spec, place, event)
        accepted = await reception.accept(spec, place, event, trigger_id=trigger_id_of(idempotency_key))
        answer = accepted_answer(accepted)
        if prefers_html(request.headers.get("accept", "")):
            return Answer(answer.result, RedirectResponse(accepted_location(place, accepted.run_id), 303))
        return answer

    return receive_form


async def _validated(spec: FormSpec, request: Request, kind: str, raw_body: bytes) -> dict[str, Any]:
    try:
        given = await read_fields(request, kind, raw_body)
        return validate(spec.inputs, given.values, from_text=given.from_text)
    except FormRefusedError as error:
        raise ProblemError(422, "some fields need another value", members={"errors": error.errors}) from None


def _check_app(spec: FormSpec, place: Place, event: Any) -> None:
    try:
        check_app(spec, place, event)
    except PayloadError:
        raise ProblemError(400, "the trigger's `app_id` cannot be computed from this form") from None


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not (0 < len(key) <= MAX_ID_LENGTH and key.isascii() and key.isprintable()):
        raise ProblemError(400, f"Idempotency-Key: at most {MAX_ID_LENGTH} printable ASCII characters")
    return key
