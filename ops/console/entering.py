"""Entering and leaving: login with an API key, logout, and allowing actions for a while."""

import re
from datetime import timedelta
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ops.console.desk import COOKIE, SEE_OTHER, Desk, Endpoint, Form
from ops.console.sessions import ACTIONS_LAST, LASTS
from ops.console.visitor import Visitor
from triggers.api_keys import hash_of
from triggers.gateway.problems import ProblemError

HOME = "/console"
_OURS = re.compile(r"/console([/?][\x21-\x7e]*)?")
_NO_PAGES = frozenset({"/console/login", "/console/logout", "/console/actions"})
_NOT_LET_IN = "This key is unknown, revoked or expired. `unattended keys list` shows those that are good."


def entrance(desk: Desk) -> Endpoint:
    async def enter(request: Request) -> Response:
        if request.method == "POST":
            return await _log_in(desk, request)
        where = place_of_ours(request.query_params.get("next", ""))
        if await desk.visitor(request) is not None:
            return RedirectResponse(where, SEE_OTHER)
        return desk.pages.page("login", None, title="Log in", where=where, wrong=None)

    return enter


async def _log_in(desk: Desk, request: Request) -> Response:
    form = await desk.form(request)
    plaintext, where = form.get("key", "").strip(), place_of_ours(form.get("next", ""))
    try:
        await desk.keyring.key_of(plaintext)
    except ProblemError as problem:
        said = _NOT_LET_IN if problem.status == 401 else problem.detail
        return desk.pages.page("login", None, status=problem.status, title="Log in", where=where, wrong=said)
    session = await desk.sessions.begin(hash_of(plaintext))
    answer = RedirectResponse(where, SEE_OTHER)
    answer.set_cookie(
        COOKIE,
        session.token,
        max_age=int(LASTS / timedelta(seconds=1)),
        path=HOME,
        # The gateway speaks plain HTTP and believes no proxy's headers; the browser itself says how it came here.
        secure=request.headers["origin"].startswith("https://"),
        httponly=True,
        samesite="strict",
    )
    return answer


async def leave(desk: Desk, _request: Request, visitor: Visitor, _form: Form) -> Response:
    await desk.sessions.end(visitor.session)
    answer = RedirectResponse("/console/login", SEE_OTHER)
    answer.delete_cookie(COOKIE, path=HOME, httponly=True, samesite="strict")
    return answer


async def allow_actions(desk: Desk, request: Request, visitor: Visitor, form: Form) -> Response:
    visitor.check_writes()
    if form.get("allow") == "yes":
        await desk.sessions.allow_actions(visitor.session)
        minutes = int(ACTIONS_LAST / timedelta(minutes=1))
        await desk.sessions.tell(visitor.session, f"Actions are allowed in this session for {minutes} minutes.")
    else:
        await desk.sessions.end_actions(visitor.session)
        await desk.sessions.tell(visitor.session, "This session is read-only again.")
    return RedirectResponse(place_of_ours(form.get("next", "") or page_before(request)), SEE_OTHER)


def page_before(request: Request) -> str:
    """The page whose header has the button, as the browser names it; its host was checked with the form."""
    before = urlsplit(request.headers.get("referer", ""))
    return f"{before.path}?{before.query}" if before.query else before.path


def place_of_ours(text: str) -> str:
    """Where to go after it: a page of the console, whatever an address says."""
    path = text.partition("?")[0]
    return text if _OURS.fullmatch(text) and path not in _NO_PAGES else HOME
