"""The form endpoint: GET and POST /forms/{app}/{workflow}/{trigger}."""

import re
from collections.abc import Awaitable, Callable

from pymongo.errors import PyMongoError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from triggers.form.accept_header import is_page_requested
from triggers.form.form_page import accepted_page, closed_page, empty_page, problem_page
from triggers.form.form_submission import new_delivery, receive_from_client, receive_from_page
from triggers.gateway.endpoint_response import EndpointResponse, count_requests
from triggers.gateway.gateway_metrics import GatewayMetrics
from triggers.gateway.http_problems import PausedError, ProblemError, on_store_error, unavailable_problem
from triggers.gateway.request_body import check_declared_size
from triggers.gateway.trigger_address import TriggerAddress
from triggers.gateway.trigger_intake import TriggerIntake
from workflows.package.trigger_specs.form_spec import FormSpec

PageHandler = Callable[[Request], Awaitable[Response]]
FORM_PATH = "/forms/{app}/{workflow}/{trigger}"
_RUN_ID = re.compile(r"run_[0-9A-HJKMNP-TV-Z]{26}")


def form_routes(intake: TriggerIntake, metrics: GatewayMetrics) -> list[Route]:
    """Serves GET and POST by one route, so that a 405 names both methods.

    Only POST is counted as a call.
    """
    page = render_problems_as_pages(form_page_endpoint(intake))
    receive = render_problems_as_pages(count_requests("form", metrics, form_submit_endpoint(intake)))

    async def form(request: Request) -> Response:
        return await (receive if request.method == "POST" else page)(request)

    return [
        Route(FORM_PATH, form, methods=["GET", "POST"]),
        Route(f"{FORM_PATH}/accepted", render_problems_as_pages(thanks_page_endpoint(intake))),
    ]


def form_submit_endpoint(intake: TriggerIntake) -> Callable[[Request], Awaitable[EndpointResponse]]:
    async def receive_form(request: Request) -> EndpointResponse:
        check_declared_size(request, intake.settings.body_limit_bytes)
        receive = receive_from_page if is_page_requested(request) else receive_from_client
        return await receive(intake, request)

    return receive_form


def form_page_endpoint(intake: TriggerIntake) -> PageHandler:
    async def show(request: Request) -> Response:
        target = await intake.lookup.find(FormSpec, TriggerAddress.from_request(request))
        if target.pause is not None:
            raise PausedError
        return empty_page(target.spec, delivery=new_delivery())

    return show


def thanks_page_endpoint(intake: TriggerIntake) -> PageHandler:
    async def show(request: Request) -> Response:
        """Shows the run id from the address.

        No run is looked up, so the page reveals nothing.
        """
        address = TriggerAddress.from_request(request)
        target = await intake.lookup.find(FormSpec, address)
        run_id = request.query_params.get("run", "")
        if not _RUN_ID.fullmatch(run_id):
            raise ProblemError(404, "there is no such page")
        return accepted_page(target.spec, run_id=run_id, form_path=f"/forms/{address.path}")

    return show


def render_problems_as_pages(handler: PageHandler) -> PageHandler:
    """Wraps a handler so that browsers get a page where programs get a problem."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except ProblemError as problem:
            if not is_page_requested(request):
                raise
            return closed_page(problem) if isinstance(problem, PausedError) else problem_page(problem)
        except PyMongoError as error:
            if not is_page_requested(request):
                raise
            await on_store_error(request, error)
            return problem_page(unavailable_problem())

    return handle
