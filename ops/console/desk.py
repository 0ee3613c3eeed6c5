"""The desk: what every page of the console needs, and who stands before it."""

import math
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ops.console import asked
from ops.console.pages import Pages
from ops.console.sessions import Sessions
from ops.console.visitor import Visitor
from triggers.api.access import Caller
from triggers.api.keyring import Keyring
from triggers.api_keys import ApiKey
from triggers.gateway.body import media_type, read_body, refuse_declared_too_large
from triggers.gateway.problems import ProblemError
from triggers.role import TriggerGround
from triggers.token_bucket import TokenBuckets

COOKIE = "unattended_console"
MAX_FIELDS = 100
SEE_OTHER = 303
MOST_VIEWS_AT_ONCE, VIEWS_PER_S = 100, 5  # of one key: more than a person reads, and too few to keep a gateway busy

Form = Mapping[str, str]
Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Desk:
    ground: TriggerGround
    pages: Pages
    sessions: Sessions
    keyring: Keyring
    views: TokenBuckets = field(default_factory=TokenBuckets)

    async def visitor(self, request: Request) -> Visitor | None:
        """None without a session, and once its key is revoked or has expired."""
        session = await self.sessions.find(request.cookies.get(COOKIE, ""))
        if session is None:
            return None
        try:
            key = await self.keyring.key_of_hash(session.key_hash)
        except ProblemError as problem:
            if problem.status != 401:
                raise
            await self.sessions.end(session)
            return None
        self._count(key)
        visitor = Visitor(session, Caller(key))
        request.state.visitor = visitor  # for the page of an error
        return visitor

    def _count(self, key: ApiKey) -> None:
        taken = self.views.take(key.id, per_s=VIEWS_PER_S, burst=MOST_VIEWS_AT_ONCE)
        if not taken.allowed:
            wait = {"retry-after": str(max(math.ceil(taken.wait_s), 1))}
            raise ProblemError(429, "this key opens too many pages; wait a little and try again", headers=wait)

    def page(self, handle: Callable[["Desk", Request, Visitor], Awaitable[Response]]) -> Endpoint:
        async def show(request: Request) -> Response:
            visitor = await self.visitor(request)
            if visitor is None:
                return self.to_login(request)
            answer = await handle(self, request, visitor)
            if visitor.session.notice is not None:  # it stands on this page
                await self.sessions.told(visitor.session)
            return answer

        return show

    def order(self, handle: Callable[["Desk", Request, Visitor, Form], Awaitable[Response]]) -> Endpoint:
        """For what changes something: a form of ours alone, sent from this session."""

        async def receive(request: Request) -> Response:
            form = await self.form(request)
            visitor = await self.visitor(request)
            if visitor is None:
                return self.to_login(request)
            if not visitor.session.owns(form.get("form_token", "")):
                raise ProblemError(403, "this form is of another session; open the page again")
            return await handle(self, request, visitor, form)

        return receive

    async def form(self, request: Request) -> Form:
        check_origin(request)
        limit_bytes = self.ground.settings.body_limit_bytes
        refuse_declared_too_large(request, limit_bytes)
        if media_type(request) != "application/x-www-form-urlencoded":
            raise ProblemError(415, "send the page's own form")
        body = (await read_body(request, limit_bytes)).decode("utf-8", "replace")
        try:
            return dict(parse_qsl(body, keep_blank_values=True, max_num_fields=MAX_FIELDS))
        except ValueError:
            raise ProblemError(400, "the form cannot be read") from None

    def to_login(self, request: Request) -> Response:
        here = asked.address_here(request)
        if request.headers.get("sec-fetch-site") == "cross-site" and COOKIE not in request.cookies:
            # Behind a link of another site a browser keeps a strict cookie to itself; behind one of ours it does not.
            return self.pages.page("continue", None, title="Console", here=here)
        return RedirectResponse(f"/console/login?next={quote(here, safe='')}", SEE_OTHER)


def check_origin(request: Request) -> None:
    """Every browser says with a form which page it came from; a page of another site cannot say that it is ours."""
    scheme, _, origin = request.headers.get("origin", "").partition("://")
    host = request.headers.get("host", "")
    if scheme not in ("http", "https") or not secrets.compare_digest(origin.lower().encode(), host.lower().encode()):
        raise ProblemError(403, "this form came from another page than the console; open the console and try again")
