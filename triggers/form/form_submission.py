"""Form submissions: from a page in a browser, or from a program."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pymongo.errors import PyMongoError
from starlette.requests import Request
from starlette.responses import RedirectResponse
from ulid import ULID

from triggers.form.form_body import SubmittedFields, is_form_type, read_fields
from triggers.form.form_page import SubmittedForm, refused_page, unsent_page
from triggers.form.form_validation import FormRefusedError, validate_form
from triggers.gateway.endpoint_response import EndpointResponse, accepted_response, problem_result
from triggers.gateway.http_problems import ProblemError, on_store_error, unavailable_problem
from triggers.gateway.request_body import media_type, read_body
from triggers.gateway.trigger_address import TriggerAddress, build_event, check_app
from triggers.gateway.trigger_intake import MAX_EVENT_ID_LENGTH, TriggerIntake, normalize_event_id
from triggers.gateway.trigger_lookup import TriggerTarget
from workers.store.run import Accepted
from workflows.package.trigger_specs.form_spec import DELIVERY_FIELD, FormSpec

_DELIVERY = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


@dataclass(frozen=True, slots=True)
class _Submission:
    """A form that was found, and the request with its fields."""

    intake: TriggerIntake
    target: TriggerTarget[FormSpec]
    address: TriggerAddress
    request: Request

    def check_open(self) -> None:
        self.intake.check_not_paused(self.target, self.address)

    def values(self, fields: SubmittedFields, *, by_browser: bool = False) -> dict[str, Any]:
        try:
            return validate_form(self.target.spec.inputs, fields, by_browser=by_browser)
        except FormRefusedError:
            self.intake.stats.record_refusal(self.target.trigger, "invalid", app_id=self.address.app, keep_note=False)
            raise

    async def accept(self, values: dict[str, Any], event_id: str) -> Accepted:
        event = build_event(values, self.request)
        evaluator = self.intake.evaluator(event)
        with self.intake.refusing_expressions(self.target.trigger, self.address, "not_mapped"):
            await evaluator.evaluate(lambda budget: check_app(self.target.spec, self.address, event, budget))
        run_input = None if self.target.spec.input else values
        return await self.intake.accept(
            self.target, self.address, event, event_id=event_id, run_input=run_input, evaluator=evaluator
        )


async def receive_from_client(intake: TriggerIntake, request: Request) -> EndpointResponse:
    address = TriggerAddress.from_request(request)
    submission = _Submission(intake, await intake.lookup.find(FormSpec, address), address, request)
    submission.check_open()
    idempotency_key, fields = await _read_submission(intake, request)
    try:
        values = submission.values(fields)
    except FormRefusedError as error:
        raise ProblemError(422, "some fields need another value", members={"errors": error.errors}) from None
    return accepted_response(await submission.accept(values, normalize_event_id(idempotency_key)))


async def receive_from_page(intake: TriggerIntake, request: Request) -> EndpointResponse:
    """Reads the form before any refusal, so that it comes back as written."""
    address = TriggerAddress.from_request(request)
    target = await _find_target(intake, address, request)
    spec = intake.lookup.find_last_known(FormSpec, address) if target is None else target.spec
    if spec is None:
        raise unavailable_problem()
    idempotency_key, fields = await _read_submission(intake, request)
    submitted = SubmittedForm(find_delivery(fields.values) or new_delivery(), fields.values)
    try:
        if target is None:
            raise unavailable_problem()
        submission = _Submission(intake, target, address, request)
        submission.check_open()
        values = submission.values(fields, by_browser=fields.from_text)
        event_id = normalize_event_id(idempotency_key or delivery_id(submitted.delivery, values))
        return _thanks_redirect(address, await submission.accept(values, event_id))
    except FormRefusedError as error:
        return EndpointResponse("invalid", refused_page(spec, replace(submitted, errors=error.errors)))
    except PyMongoError as error:
        await on_store_error(request, error)
        problem = unavailable_problem()
    except ProblemError as error:  # also of a frozen store, which raises no error of its own
        problem = error
    return EndpointResponse(problem_result(problem), unsent_page(spec, submitted, problem))


async def _find_target(
    intake: TriggerIntake, address: TriggerAddress, request: Request
) -> TriggerTarget[FormSpec] | None:
    """Returns None while the store does not answer."""
    try:
        return await intake.lookup.find(FormSpec, address)
    except PyMongoError as error:
        await on_store_error(request, error)
    except ProblemError as problem:
        if problem.status != unavailable_problem().status:
            raise
    return None


async def _read_submission(intake: TriggerIntake, request: Request) -> tuple[str | None, SubmittedFields]:
    """Returns the Idempotency-Key, if there is one, and the fields."""
    kind = media_type(request)
    if not is_form_type(kind):
        raise ProblemError(415, "send application/json, application/x-www-form-urlencoded or multipart/form-data")
    idempotency_key = _idempotency_key(request)
    return idempotency_key, await read_fields(request, kind, await read_body(request, intake.settings.body_limit_bytes))


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not (0 < len(key) <= MAX_EVENT_ID_LENGTH and key.isascii() and key.isprintable()):
        raise ProblemError(400, f"Idempotency-Key: at most {MAX_EVENT_ID_LENGTH} printable ASCII characters")
    return key


def _thanks_redirect(address: TriggerAddress, accepted: Accepted) -> EndpointResponse:
    location = f"/forms/{address.path}/accepted?run={accepted.run_id}"
    return EndpointResponse(accepted_response(accepted).result, RedirectResponse(location, 303))


def new_delivery() -> str:
    """Identifies a rendered page, so that a double click or a reload starts one run.

    It is no CSRF token. Such a token protects a cookie or a login, and forms have neither: another site can make a
    visitor send only what any client may send itself.
    """
    return str(ULID())


def find_delivery(values: Mapping[str, Any]) -> str | None:
    """Returns the delivery that a page of this gateway was given, else None."""
    delivery = values.get(DELIVERY_FIELD)
    return delivery if isinstance(delivery, str) and _DELIVERY.fullmatch(delivery) else None


def delivery_id(delivery: str, values: Mapping[str, Any]) -> str:
    """Includes the answers: a form that is corrected and sent again is another run."""
    answers = json.dumps(values, sort_keys=True, ensure_ascii=True).encode()
    return f"page:{delivery}:{hashlib.sha256(answers).hexdigest()[:16]}"
