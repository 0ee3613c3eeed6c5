"""The form endpoint: GET and POST /forms/{app}/{workflow}/{trigger}, and the thank-you page behind them."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pymongo.errors import PyMongoError
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from triggers.form.accept_header import prefers_html
from triggers.form.body import GivenFields, is_form, read_fields
from triggers.form.delivery import delivery_id, delivery_in, new_delivery
from triggers.form.page import Filled, accepted_page, closed_page, empty_page, not_kept_page, problem_page, refused_page
from triggers.form.validation import FormRefusedError, validate
from triggers.gateway.body import media_type, read_body, refuse_declared_too_large
from triggers.gateway.event import with_request
from triggers.gateway.metrics import GatewayMetrics
from triggers.gateway.place import Place, check_app
from triggers.gateway.problems import ProblemError, on_store_error, unavailable
from triggers.gateway.reception import (
    MAX_ID_LENGTH,
    NOT_COMPUTED,
    Answer,
    PausedError,
    Reception,
    accepted_answer,
    counted,
    trigger_id_of,
)
from triggers.payload import PayloadError
from triggers.register.lookup import Found
from workers.store.run import Accepted
from workflows.package.trigger_specs.form import FormSpec

Show = Callable[[Request], Awaitable[Response]]
ADDRESS = "/forms/{app}/{workflow}/{trigger}"
_RUN_ID = re.compile(r"run_[0-9A-HJKMNP-TV-Z]{26}")


def form_routes(reception: Reception, metrics: GatewayMetrics) -> list[Route]:
    """One route for looking and sending, so that another method is told of both. Looking is no call: not counted."""
    page = with_pages(form_page(reception))
    receive = with_pages(counted("form", metrics, form_endpoint(reception)))

    async def form(request: Request) -> Response:
        return await (receive if request.method == "POST" else page)(request)

    return [
        Route(ADDRESS, form, methods=["GET", "POST"]),
        Route(f"{ADDRESS}/accepted", with_pages(thanks_page(reception))),
    ]


def form_endpoint(reception: Reception) -> Callable[[Request], Awaitable[Answer]]:
    async def receive_form(request: Request) -> Answer:
        limit_bytes = reception.settings.body_limit_bytes
        place = Place.of(request)
        await refuse_declared_too_large(request, limit_bytes)
        call = _Call(reception, await reception.find(FormSpec, place), place, request)
        reception.check_open(call.found, place)
        kind = media_type(request)
        if not is_form(kind):
            raise ProblemError(415, "send application/json, application/x-www-form-urlencoded or multipart/form-data")
        idempotency_key = _idempotency_key(request)
        given = await read_fields(request, kind, await read_body(request, limit_bytes))
        if _wants_page(request):
            return await _receive_from_page(call, given, idempotency_key)
        values = _validated(call, given)
        accepted = await call.accept(values, trigger_id_of(idempotency_key))
        return accepted_answer(accepted)

    return receive_form


def form_page(reception: Reception) -> Show:
    async def show(request: Request) -> Response:
        found = await reception.find(FormSpec, Place.of(request))
        if found.pause is not None:
            raise PausedError
        return empty_page(found.spec, delivery=new_delivery())

    return show


def thanks_page(reception: Reception) -> Show:
    async def show(request: Request) -> Response:
        """The number is shown as it stands in the address: nothing is looked up, so nothing is told."""
        place = Place.of(request)
        found = await reception.find(FormSpec, place)
        run_id = request.query_params.get("run", "")
        if not _RUN_ID.fullmatch(run_id):
            raise ProblemError(404, "there is no such page")
        return accepted_page(found.spec, run_id=run_id, form_path=f"/forms/{place.path}")

    return show


def with_pages(show: Show) -> Show:
    """A person gets a page where a program gets a problem."""

    async def shown(request: Request) -> Response:
        try:
            return await show(request)
        except ProblemError as problem:
            if not _wants_page(request):
                raise
            return closed_page(problem) if isinstance(problem, PausedError) else problem_page(problem)
        except PyMongoError as error:
            if not _wants_page(request):
                raise
            await on_store_error(request, error)
            return problem_page(unavailable())

    return shown


@dataclass(frozen=True, slots=True)
class _Call:
    """A form that was found, and the request that fills it in."""

    reception: Reception
    found: Found[FormSpec]
    place: Place
    request: Request

    async def accept(self, values: dict[str, Any], trigger_id: str) -> Accepted:
        event = with_request(values, self.request)
        try:
            check_app(self.found.spec, self.place, event)
        except PayloadError:
            raise self.reception.refused_body(self.found.trigger, self.place, "not_mapped", NOT_COMPUTED) from None
        run_input = None if self.found.spec.input else values
        return await self.reception.accept(self.found, self.place, event, trigger_id=trigger_id, run_input=run_input)

    def thanks(self, accepted: Accepted) -> Answer:
        location = f"/forms/{self.place.path}/accepted?run={accepted.run_id}"
        return Answer(accepted_answer(accepted).result, RedirectResponse(location, 303))

    def count_refused(self) -> None:
        self.reception.tally.refused(self.found.trigger, "invalid", app_id=self.place.app, noted=False)


async def _receive_from_page(call: _Call, given: GivenFields, idempotency_key: str | None) -> Answer:
    """What is refused, or cannot be kept, comes back as it was written."""
    spec = call.found.spec
    delivery = delivery_in(given.values) or new_delivery()
    try:
        values = validate(spec.inputs, given, by_browser=given.from_text)
    except FormRefusedError as error:
        call.count_refused()
        return Answer("invalid", refused_page(spec, Filled(delivery, given.values, error.errors)))
    try:
        return call.thanks(await call.accept(values, trigger_id_of(idempotency_key or delivery_id(delivery, values))))
    except PyMongoError as error:
        await on_store_error(call.request, error)
    except ProblemError as problem:  # of a store that is frozen there is no error, only no answer in time
        if problem.status != unavailable().status:
            raise
    return Answer("unavailable", not_kept_page(spec, Filled(delivery, given.values), unavailable()))


def _validated(call: _Call, given: GivenFields) -> dict[str, Any]:
    try:
        return validate(call.found.spec.inputs, given)
    except FormRefusedError as error:
        call.count_refused()
        raise ProblemError(422, "some fields need another value", members={"errors": error.errors}) from None


def _wants_page(request: Request) -> bool:
    return prefers_html(request.headers.get("accept", ""))


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not (0 < len(key) <= MAX_ID_LENGTH and key.isascii() and key.isprintable()):
        raise ProblemError(400, f"Idempotency-Key: at most {MAX_ID_LENGTH} printable ASCII characters")
    return key
