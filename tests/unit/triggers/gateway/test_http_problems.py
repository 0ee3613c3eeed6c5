"""Problems: an answer of ours for every failure, and nothing in it that helps an attacker."""

from http import HTTPStatus

import httpx
import pytest
from pymongo.errors import ServerSelectionTimeoutError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from triggers.gateway.http_problems import EXCEPTION_HANDLERS, ProblemError


async def answer_to(error: Exception) -> httpx.Response:
    async def fail(_request: Request) -> Response:
        raise error

    app = Starlette(routes=[Route("/", fail)], exception_handlers=EXCEPTION_HANDLERS)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        return await client.get("/")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RuntimeError("mongodb://user:password@host"), 500),
        (ServerSelectionTimeoutError("mongodb://user:password@host"), 503),
    ],
)
async def test_an_internal_error_reveals_nothing(error: Exception, status: int) -> None:
    answer = await answer_to(error)

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert "password" not in answer.text


async def test_a_problem_is_answered_with_its_status_and_headers() -> None:
    problem = ProblemError(422, "some fields", headers={"x-extra": "1"}, members={"errors": {"email": "is required"}})

    answer = await answer_to(problem)

    assert answer.headers["x-extra"] == "1"
    assert answer.json() == {
        "type": "about:blank",
        "title": HTTPStatus(422).phrase,
        "status": 422,
        "detail": "some fields",
        "errors": {"email": "is required"},
    }
