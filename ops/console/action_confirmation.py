"""Confirmation of actions: permission checks, the confirmation page, and the notice after it."""

from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ops.console import query_params
from ops.console.console_context import STATUS_SEE_OTHER, ConsoleContext
from ops.console.visitor import Visitor
from triggers.gateway.http_problems import ProblemError


def permission_page(
    context: ConsoleContext, request: Request, visitor: Visitor, title: str, *, is_approval: bool = False
) -> Response | None:
    """Return the page that offers to allow actions; None if they are allowed."""
    visitor.check_may_approve() if is_approval else visitor.check_may_write()
    if visitor.may_act:
        return None
    here = query_params.current_path(request)
    return context.renderer.render(
        "not_allowed", visitor, status=403, title=title, here=here, back=_subject_path(request)
    )


def confirmation_page(
    context: ConsoleContext, request: Request, visitor: Visitor, template: str, **values: Any
) -> Response:
    return context.renderer.render(template, visitor, back=_subject_path(request), **values)


def check_may_act(visitor: Visitor, *, is_approval: bool = False) -> None:
    """Check again before an action, as its page may be old."""
    visitor.check_may_approve() if is_approval else visitor.check_may_write()
    if not visitor.may_act:
        raise ProblemError(403, "this session no longer allows actions; allow them and try again")


async def redirect_with_notice(context: ConsoleContext, visitor: Visitor, notice: str, path: str) -> Response:
    await context.sessions.set_notice(visitor.session, notice)
    return RedirectResponse(path, STATUS_SEE_OTHER)


def _subject_path(request: Request) -> str:
    """Return the path of the run or trigger, with the app of the page."""
    path, mark, query = query_params.current_path(request).partition("?")
    return path.rpartition("/")[0] + mark + query
