"""Endpoint responses: the results of webhook and form calls, and their count."""

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pymongo.errors import PyMongoError
from starlette.requests import Request
from starlette.responses import Response

from triggers.gateway.gateway_metrics import RESULT_BY_STATUS, Endpoint, GatewayMetrics, RequestResult
from triggers.gateway.http_problems import PausedError, ProblemError
from workers.store.run import Accepted


@dataclass(frozen=True, slots=True)
class EndpointResponse:
    result: RequestResult
    response: Response


def accepted_response(accepted: Accepted) -> EndpointResponse:
    body = {"run_id": accepted.run_id, "status_url": f"/v1/runs/{accepted.run_id}"}
    if accepted.created:
        return EndpointResponse("accepted", json_response(body, 202))
    return EndpointResponse("duplicate", json_response(body, 200))


def json_response(body: Mapping[str, Any], status: int = 200) -> Response:
    """Encodes faster than JSONResponse, which builds an encoder per response."""
    return Response(json.dumps(body), status, media_type="application/json")


def problem_result(problem: ProblemError) -> RequestResult:
    return "paused" if isinstance(problem, PausedError) else RESULT_BY_STATUS.get(problem.status, "error")


def count_requests(
    endpoint: Endpoint, metrics: GatewayMetrics, handle: Callable[[Request], Awaitable[EndpointResponse]]
) -> Callable[[Request], Awaitable[Response]]:
    """Wraps an endpoint so that each call is counted by its result and timed."""

    async def handle_and_count(request: Request) -> Response:
        started = time.perf_counter()
        result: RequestResult = "error"
        try:
            answer = await handle(request)
            result = answer.result
            return answer.response
        except ProblemError as problem:
            result = problem_result(problem)
            raise
        except PyMongoError:
            result = "unavailable"
            raise
        finally:
            metrics.observe_request(endpoint, result, seconds=time.perf_counter() - started)

    return handle_and_count
