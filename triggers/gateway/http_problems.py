"""HTTP problems: errors as application/problem+json (RFC 9457)."""

import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from pymongo.errors import PyMongoError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

log = logging.getLogger(__name__)

RETRY_AFTER_S = 5  # long enough for an election, short enough for a waiting sender
PAUSED_RETRY_AFTER_S = 60


class ProblemError(Exception):
    """A request that cannot be served. Its sender reads `detail`."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        self.members = dict(members or {})


class PausedError(ProblemError):
    """Answers 503, so that senders retry and no delivery is lost."""

    def __init__(self) -> None:
        headers = {"retry-after": str(PAUSED_RETRY_AFTER_S)}
        super().__init__(503, "this trigger is paused; try again later", headers=headers)


def problem_response(problem: ProblemError) -> Response:
    body = {
        "type": "about:blank",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.detail,
        **problem.members,
    }
    headers = {"x-content-type-options": "nosniff", **problem.headers}
    return Response(json.dumps(body), problem.status, headers, "application/problem+json")


def unavailable_problem(detail: str = "the store does not answer; try again") -> ProblemError:
    return ProblemError(503, detail, headers={"retry-after": str(RETRY_AFTER_S)})


def store_timeout_problem(step: str) -> ProblemError:
    """Logs that the store did not answer in time, and returns the 503."""
    log.error("store_unavailable", extra={"error": "TimeoutError", "step": step})
    return unavailable_problem()


async def on_problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)  # noqa: S101 -- Starlette types each handler as one of Exception
    return problem_response(error)


async def on_http_exception(_request: Request, error: Exception) -> Response:
    """Handles Starlette's own errors: unknown addresses and wrong methods."""
    assert isinstance(error, HTTPException)  # noqa: S101 -- as above
    detail = {404: "there is nothing at this address", 405: "this address takes another method"}
    text = detail.get(error.status_code, "the request cannot be read")
    return problem_response(ProblemError(error.status_code, text, headers=error.headers))


async def on_store_error(_request: Request, error: Exception) -> Response:
    log.error("store_unavailable", extra={"error": type(error).__name__})
    return problem_response(unavailable_problem())


async def on_error(_request: Request, _error: Exception) -> Response:
    """Reveals nothing.

    Starlette raises the error again after the response, and the server logs it.
    """
    return problem_response(ProblemError(500, "an error on our side; it is in our log"))


EXCEPTION_HANDLERS = {
    ProblemError: on_problem,
    HTTPException: on_http_exception,
    PyMongoError: on_store_error,
    Exception: on_error,
}
