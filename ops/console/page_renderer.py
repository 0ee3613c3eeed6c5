"""The page renderer: escaped templates, and headers that forbid what no page needs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import ChainableUndefined, Environment, FileSystemLoader
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ops.console.template_filters import TEMPLATE_FILTERS
from ops.console.visitor import Visitor

FOLDER = Path(__file__).resolve().parent
HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; form-action 'self'; "
        "frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not no-referrer, which makes browsers send `Origin: null` with our own forms. Neither sends it to other hosts.
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
SECTIONS = (("", "Overview"), ("runs", "Runs"), ("triggers", "Triggers"), ("usage", "Usage"), ("runbook", "Runbook"))


class SecurityHeaders:
    """Adds the headers to every response of the console."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self._app(scope, receive, send_with_headers)


class PageRenderer:
    def __init__(self) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=ChainableUndefined,  # fields that a run of another version lacks are left out
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(TEMPLATE_FILTERS)
        self._environment.globals["sections"] = SECTIONS

    def render(self, name: str, visitor: Visitor | None, *, status: int = 200, **values: Any) -> Response:
        """Render a template; `values` has the page's `title`, and the `section` to highlight."""
        variables = {"visitor": visitor, "section": None, **values}
        html = self._environment.get_template(f"{name}.html").render(variables)
        # Data from JSON may hold half of a surrogate pair, which UTF-8 cannot encode.
        return Response(html.encode("utf-8", "replace"), status, media_type="text/html")
