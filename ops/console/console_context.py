"""The console context: what every page needs, and how requests become visitors and forms."""

import math
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ops.console import query_params
from ops.console.page_renderer import PageRenderer
from ops.console.sessions import Sessions
from ops.console.visitor import Visitor
from triggers.api.caller_access import Caller
from triggers.api.keyring import Keyring
from triggers.api_keys import ApiKey
from triggers.gateway.http_problems import ProblemError
from triggers.gateway.request_body import check_declared_size, media_type, read_body
from triggers.role_context import RoleContext
from triggers.token_bucket import TokenBuckets, TokenRate
from workers.control.run_detail import MAX_TURN_BYTES

COOKIE_NAME = "unattended_console"
MAX_FORM_FIELDS = 100
STATUS_SEE_OTHER = 303

Form = Mapping[str, str]
Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """How much of a gateway the console's pages may take."""

    view_rate: TokenRate = TokenRate(per_s=5, burst=100)  # noqa: RUF009 -- frozen; per key: more than a person reads
    max_turns: int = 300  # of a run, on its page
    max_turn_bytes: int = MAX_TURN_BYTES  # of those turns
    max_triggers_scanned: int = 500  # of triggers created at run time, as no index covers the inactive ones


@dataclass(frozen=True, slots=True)
class ConsoleContext:
    role: RoleContext
    renderer: PageRenderer
    sessions: Sessions
    keyring: Keyring
    options: ConsoleOptions = field(default_factory=ConsoleOptions)
    view_limit: TokenBuckets = field(default_factory=TokenBuckets)

    async def find_visitor(self, request: Request) -> Visitor | None:
        """Return None without a session, or if its key is revoked or has expired."""
        session = await self.sessions.find(request.cookies.get(COOKIE_NAME, ""))
        if session is None:
            return None
        try:
            key = await self.keyring.authenticate_hash(session.key_hash)
        except ProblemError as problem:
            if problem.status != 401:
                raise
            await self.sessions.end(session)
            return None
        self._count_view(key)
        visitor = Visitor(session, Caller(key))
        request.state.visitor = visitor  # read by error pages
        return visitor

    def _count_view(self, key: ApiKey) -> None:
        rate = self.options.view_rate
        token = self.view_limit.try_acquire(key.id, per_s=rate.per_s, burst=rate.burst)
        if not token.is_allowed:
            headers = {"retry-after": str(max(math.ceil(token.wait_s), 1))}
            raise ProblemError(429, "this key opens too many pages; wait a moment and try again", headers=headers)

    def page_endpoint(self, handle: Callable[["ConsoleContext", Request, Visitor], Awaitable[Response]]) -> Endpoint:
        async def show(request: Request) -> Response:
            visitor = await self.find_visitor(request)
            if visitor is None:
                return self.redirect_to_login(request)
            response = await handle(self, request, visitor)
            if visitor.session.notice is not None:  # this page shows it
                await self.sessions.clear_notice(visitor.session)
            return response

        return show

    def action_endpoint(
        self, handle: Callable[["ConsoleContext", Request, Visitor, Form], Awaitable[Response]]
    ) -> Endpoint:
        """Build an endpoint that accepts only the console's own forms, sent from the same session."""

        async def receive(request: Request) -> Response:
            form = await self.read_form(request)
            visitor = await self.find_visitor(request)
            if visitor is None:
                return self.redirect_to_login(request)
            if not visitor.session.is_own_form(form.get("form_token", "")):
                raise ProblemError(403, "this form belongs to another session; reload the page")
            return await handle(self, request, visitor, form)

        return receive

    async def read_form(self, request: Request) -> Form:
        check_origin(request)
        limit_bytes = self.role.settings.body_limit_bytes
        check_declared_size(request, limit_bytes)
        if media_type(request) != "application/x-www-form-urlencoded":
            raise ProblemError(415, "send the form of the page")
        body = (await read_body(request, limit_bytes)).decode("utf-8", "replace")
        try:
            return dict(parse_qsl(body, keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS))
        except ValueError:
            raise ProblemError(400, "the form cannot be read") from None

    def redirect_to_login(self, request: Request) -> Response:
        here = query_params.current_path(request)
        if request.headers.get("sec-fetch-site") == "cross-site" and COOKIE_NAME not in request.cookies:
            # A browser withholds a strict cookie after a link on another site; a link on our own page sends it.
            return self.renderer.render("continue", None, title="Console", here=here)
        return RedirectResponse(f"/console/login?next={quote(here, safe='')}", STATUS_SEE_OTHER)


def check_origin(request: Request) -> None:
    """Refuse forms from other sites: browsers send the Origin of a form's page, which no page can forge."""
    scheme, _, origin = request.headers.get("origin", "").partition("://")
    host = request.headers.get("host", "")
    if scheme not in ("http", "https") or not secrets.compare_digest(origin.lower().encode(), host.lower().encode()):
        raise ProblemError(403, "this form was not sent from the console; open the console and try again")
