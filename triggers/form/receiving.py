"""Receiving a form: from a page, which shows what was refused as it was written, or from a program."""

from dataclasses import dataclass, replace
from typing import Any

from pymongo.errors import PyMongoError
from starlette.requests import Request
from starlette.responses import RedirectResponse

from triggers.computation import Computation
from triggers.form.body import GivenFields, is_form, read_fields
from triggers.form.delivery import delivery_id, delivery_in, new_delivery
from triggers.form.page import Filled, not_kept_page, refused_page
from triggers.form.validation import FormRefusedError, validate
from triggers.gateway.body import media_type, read_body
from triggers.gateway.event import with_request
from triggers.gateway.place import Place, check_app
from triggers.gateway.problems import ProblemError, on_store_error, unavailable
from triggers.gateway.reception import (
    MAX_ID_LENGTH,
    NOT_COMPUTED,
    Answer,
    Reception,
    accepted_answer,
    result_of,
    trigger_id_of,
)
from triggers.payload import PayloadError
from triggers.register.lookup import Found
from workers.store.run import Accepted
from workflows.package.trigger_specs.form import FormSpec


@dataclass(frozen=True, slots=True)
class _Call:
    """A form that was found, and the request that fills it in."""

    reception: Reception
    found: Found[FormSpec]
    place: Place
    request: Request

    def check_open(self) -> None:
        self.reception.check_open(self.found, self.place)

    def values(self, given: GivenFields, *, by_browser: bool = False) -> dict[str, Any]:
        try:
            return validate(self.found.spec.inputs, given, by_browser=by_browser)
        except FormRefusedError:
            self.reception.tally.refused(self.found.trigger, "invalid", app_id=self.place.app, noted=False)
            raise

    async def accept(self, values: dict[str, Any], trigger_id: str) -> Accepted:
        event = with_request(values, self.request)
        computation = Computation(event)
        try:
            await self.reception.compute(
                computation, lambda effort: check_app(self.found.spec, self.place, event, effort)
            )
        except PayloadError:
            raise self.reception.refused_body(self.found.trigger, self.place, "not_mapped", NOT_COMPUTED) from None
        run_input = None if self.found.spec.input else values
        return await self.reception.accept(
            self.found, self.place, event, trigger_id=trigger_id, run_input=run_input, computation=computation
        )


async def receive_from_program(reception: Reception, request: Request) -> Answer:
    place = Place.of(request)
    call = _Call(reception, await reception.find(FormSpec, place), place, request)
    call.check_open()
    idempotency_key, given = await _read(reception, request)
    try:
        values = call.values(given)
    except FormRefusedError as error:
        raise ProblemError(422, "some fields need another value", members={"errors": error.errors}) from None
    return accepted_answer(await call.accept(values, trigger_id_of(idempotency_key)))


async def receive_from_page(reception: Reception, request: Request) -> Answer:
    """Whatever may refuse it has its say after it was read: it comes back as it was written."""
    place = Place.of(request)
    found = await _find(reception, place, request)
    spec = reception.last_known(FormSpec, place) if found is None else found.spec
    if spec is None:
        raise unavailable()
    idempotency_key, given = await _read(reception, request)
    filled = Filled(delivery_in(given.values) or new_delivery(), given.values)
    try:
        if found is None:
            raise unavailable()
        call = _Call(reception, found, place, request)
        call.check_open()
        values = call.values(given, by_browser=given.from_text)
        name = trigger_id_of(idempotency_key or delivery_id(filled.delivery, values))
        return _thanks(place, await call.accept(values, name))
    except FormRefusedError as error:
        return Answer("invalid", refused_page(spec, replace(filled, errors=error.errors)))
    except PyMongoError as error:
        await on_store_error(request, error)
        problem = unavailable()
    except ProblemError as error:  # of a store that is frozen there is no error of the store's
        problem = error
    return Answer(result_of(problem), not_kept_page(spec, filled, problem))


async def _find(reception: Reception, place: Place, request: Request) -> Found[FormSpec] | None:
    """None while the store does not answer."""
    try:
        return await reception.find(FormSpec, place)
    except PyMongoError as error:
        await on_store_error(request, error)
    except ProblemError as problem:
        if problem.status != unavailable().status:
            raise
    return None


async def _read(reception: Reception, request: Request) -> tuple[str | None, GivenFields]:
    """The Idempotency-Key, if there is one, and the fields."""
    kind = media_type(request)
    if not is_form(kind):
        raise ProblemError(415, "send application/json, application/x-www-form-urlencoded or multipart/form-data")
    idempotency_key = _idempotency_key(request)
    return idempotency_key, await read_fields(
        request, kind, await read_body(request, reception.settings.body_limit_bytes)
    )


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not (0 < len(key) <= MAX_ID_LENGTH and key.isascii() and key.isprintable()):
        raise ProblemError(400, f"Idempotency-Key: at most {MAX_ID_LENGTH} printable ASCII characters")
    return key


def _thanks(place: Place, accepted: Accepted) -> Answer:
    location = f"/forms/{place.path}/accepted?run={accepted.run_id}"
    return Answer(accepted_answer(accepted).result, RedirectResponse(location, 303))
