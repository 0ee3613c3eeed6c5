"""Error pages: the problem, and a link back, for every response that is not a success."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

from pymongo.errors import ExecutionTimeout, PyMongoError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ops.console import query_params
from ops.console.page_renderer import PageRenderer
from triggers.control.trigger_errors import (
    NotForThisKeyError,
    UnfitTriggerError,
    UnknownTriggerError,
    UnknownWorkflowError,
)
from triggers.gateway.http_problems import ProblemError, on_store_error, unavailable_problem
from workers.control.change_result import RefusedError, RunNotFoundError
from workers.control.run_answers import InvalidAnswerError
from workers.store.storable import NotStorableError

Handler = Callable[[Request, Exception], Awaitable[Response]]
# The status, and a text that replaces the error's own. A run of another app looks like one that does not exist.
_STATUS_BY_ERROR: Mapping[type[Exception], tuple[int, str | None]] = {
    UnfitTriggerError: (422, None),
    InvalidAnswerError: (422, None),
    NotStorableError: (422, None),
    RefusedError: (409, None),
    NotForThisKeyError: (403, None),
    UnknownWorkflowError: (404, None),
    RunNotFoundError: (404, "there is no such run"),
    UnknownTriggerError: (404, "there is no such trigger"),
    ExecutionTimeout: (503, "this search takes too long; narrow it by a time, a state or an app"),
    # Starlette raises it again after the page, and the server logs it.
    Exception: (500, "internal error; the gateway's log has the details"),
}


def error_handlers(renderer: PageRenderer) -> Mapping[Any, Handler]:
    def page(request: Request, problem: ProblemError) -> Response:
        response = renderer.render(
            "error",
            getattr(request.state, "visitor", None),
            status=problem.status,
            title=HTTPStatus(problem.status).phrase,
            message=problem.detail,
            back=_parent_path(query_params.current_path(request).partition("?")[0]),
        )
        response.headers.update(problem.headers)
        return response

    async def on_problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, ProblemError)  # noqa: S101 -- Starlette types every handler as one of Exception
        return page(request, error)

    async def on_wrong_address(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 -- as above
        message = "this address takes another method" if error.status_code == 405 else "there is no such page"
        return page(request, ProblemError(error.status_code, message, headers=error.headers))

    async def on_store(request: Request, error: Exception) -> Response:
        await on_store_error(request, error)
        return page(request, unavailable_problem())

    def make_handler(status: int, message: str | None) -> Handler:
        async def on_error(request: Request, error: Exception) -> Response:
            return page(request, ProblemError(status, message or str(error)))

        return on_error

    return {
        ProblemError: on_problem,
        HTTPException: on_wrong_address,
        PyMongoError: on_store,
        **{type_: make_handler(*row) for type_, row in _STATUS_BY_ERROR.items()},
    }


def _parent_path(path: str) -> str:
    """Return the subject of an action's path, or the list of a subject's path."""
    parts = path.rstrip("/").split("/")
    is_trigger = parts[2:3] == ["triggers"] and len(parts) == 5  # a trigger's name has two parts
    return "/console/triggers" if is_trigger else "/".join(parts[:-1]) if len(parts) > 3 else "/console"
