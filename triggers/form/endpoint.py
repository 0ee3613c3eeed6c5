"""The form endpoint: GET and POST /forms/{app}/{workflow}/{trigger}, and the thank-you page behind them."""

import re
from collections.abc import Awaitable, Callable

from pymongo.errors import PyMongoError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from triggers.form.accept_header import wants_page
from triggers.form.delivery import new_delivery
from triggers.form.page import accepted_page, closed_page, empty_page, problem_page
from triggers.form.receiving import receive_from_page, receive_from_program
from triggers.gateway.body import refuse_declared_too_large
from triggers.gateway.metrics import GatewayMetrics
from triggers.gateway.place import Place
from triggers.gateway.problems import ProblemError, on_store_error, unavailable
from triggers.gateway.reception import Answer, PausedError, Reception, counted
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
        refuse_declared_too_large(request, reception.settings.body_limit_bytes)
        receive = receive_from_page if wants_page(request) else receive_from_program
        return await receive(reception, request)

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
            if not wants_page(request):
                raise
            return closed_page(problem) if isinstance(problem, PausedError) else problem_page(problem)
        except PyMongoError as error:
            if not wants_page(request):
                raise
            await on_store_error(request, error)
            return problem_page(unavailable())

    return shown
