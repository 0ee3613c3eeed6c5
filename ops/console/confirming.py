"""Confirming: an action is done from a page that says what it does, by a session that may act."""

from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ops.console import asked
from ops.console.desk import SEE_OTHER, Desk
from ops.console.visitor import Visitor
from triggers.gateway.problems import ProblemError


def not_yet_allowed(
    desk: Desk, request: Request, visitor: Visitor, title: str, *, is_approval: bool = False
) -> Response | None:
    """The page that offers to allow actions; None where they are allowed."""
    visitor.check_approves() if is_approval else visitor.check_writes()
    if visitor.may_act:
        return None
    here = asked.address_here(request)
    return desk.pages.page("not_allowed", visitor, status=403, title=title, here=here, back=_thing(request))


def confirmation(desk: Desk, request: Request, visitor: Visitor, template: str, **values: Any) -> Response:
    return desk.pages.page(template, visitor, back=_thing(request), **values)


def check_allowed(visitor: Visitor, *, is_approval: bool = False) -> None:
    """Before anything is done: it may be long ago that the page was shown."""
    visitor.check_approves() if is_approval else visitor.check_writes()
    if not visitor.may_act:
        raise ProblemError(403, "actions are not allowed in this session any more; allow them and try again")


async def done(desk: Desk, visitor: Visitor, said: str, path: str) -> Response:
    await desk.sessions.tell(visitor.session, said)
    return RedirectResponse(path, SEE_OTHER)


def _thing(request: Request) -> str:
    """The page of what the action is about, with the app that was looked at."""
    path, mark, query = asked.address_here(request).partition("?")
    return path.rpartition("/")[0] + mark + query
