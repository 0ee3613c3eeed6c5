"""Login with an API key, logout, and the permission of actions for a while."""

import re
from datetime import timedelta
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ops.console.console_context import COOKIE_NAME, STATUS_SEE_OTHER, ConsoleContext, Endpoint, Form
from ops.console.sessions import ACTIONS_LIFETIME, SESSION_LIFETIME
from ops.console.visitor import Visitor
from triggers.api_keys import hash_key
from triggers.gateway.http_problems import ProblemError

HOME_PATH = "/console"
_CONSOLE_PATH = re.compile(r"/console([/?][\x21-\x7e]*)?")
_NON_PAGE_PATHS = frozenset({"/console/login", "/console/logout", "/console/actions"})
_INVALID_KEY_TEXT = "This key is unknown, revoked or expired. `unattended keys list` lists the valid keys."


def login_endpoint(context: ConsoleContext) -> Endpoint:
    async def show_or_log_in(request: Request) -> Response:
        if request.method == "POST":
            return await _log_in(context, request)
        next_path = safe_console_path(request.query_params.get("next", ""))
        if await context.find_visitor(request) is not None:
            return RedirectResponse(next_path, STATUS_SEE_OTHER)
        return context.renderer.render("login", None, title="Log in", next_path=next_path, error=None)

    return show_or_log_in


async def _log_in(context: ConsoleContext, request: Request) -> Response:
    form = await context.read_form(request)
    plaintext, next_path = form.get("key", "").strip(), safe_console_path(form.get("next", ""))
    try:
        await context.keyring.authenticate(plaintext)
    except ProblemError as problem:
        error = _INVALID_KEY_TEXT if problem.status == 401 else problem.detail
        values = {"title": "Log in", "next_path": next_path, "error": error}
        return context.renderer.render("login", None, status=problem.status, **values)
    session = await context.sessions.begin(hash_key(plaintext))
    response = RedirectResponse(next_path, STATUS_SEE_OTHER)
    response.set_cookie(
        COOKIE_NAME,
        session.token,
        max_age=int(SESSION_LIFETIME / timedelta(seconds=1)),
        path=HOME_PATH,
        # The gateway serves plain HTTP and trusts no proxy's headers; the browser's Origin shows whether it used TLS.
        secure=request.headers["origin"].startswith("https://"),
        httponly=True,
        samesite="strict",
    )
    return response


async def log_out(context: ConsoleContext, _request: Request, visitor: Visitor, _form: Form) -> Response:
    await context.sessions.end(visitor.session)
    response = RedirectResponse("/console/login", STATUS_SEE_OTHER)
    response.delete_cookie(COOKIE_NAME, path=HOME_PATH, httponly=True, samesite="strict")
    return response


async def set_actions(context: ConsoleContext, request: Request, visitor: Visitor, form: Form) -> Response:
    visitor.check_may_write()
    if form.get("allow") == "yes":
        await context.sessions.allow_actions(visitor.session)
        minutes = int(ACTIONS_LIFETIME / timedelta(minutes=1))
        await context.sessions.set_notice(
            visitor.session, f"Actions are allowed in this session for {minutes} minutes."
        )
    else:
        await context.sessions.end_actions(visitor.session)
        await context.sessions.set_notice(visitor.session, "This session is read-only again.")
    return RedirectResponse(safe_console_path(form.get("next", "") or referring_page(request)), STATUS_SEE_OTHER)


def referring_page(request: Request) -> str:
    """Return the page that sent the form, from the Referer; the form's origin was checked before."""
    referer = urlsplit(request.headers.get("referer", ""))
    return f"{referer.path}?{referer.query}" if referer.query else referer.path


def safe_console_path(text: str) -> str:
    """Return a page of the console; any other path becomes the overview."""
    path = text.partition("?")[0]
    return text if _CONSOLE_PATH.fullmatch(text) and path not in _NON_PAGE_PATHS else HOME_PATH
