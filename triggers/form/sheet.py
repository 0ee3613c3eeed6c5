"""A sheet: one HTML page of a form, whole in itself. It loads nothing and runs nothing, and says so to the browser."""

import base64
import hashlib
from collections.abc import Mapping

from starlette.responses import HTMLResponse

from triggers.form.markup import Markup, element
from triggers.form.style import STYLE

_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

SECURITY_HEADERS = {
    "content-security-policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; frame-ancestors 'none'; "
        "base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_HEAD = Markup(
    '<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    f'<meta name="robots" content="noindex">\n<style>{STYLE}</style>\n'
)


def render_page(
    title: str, *content: Markup | str, status: int = 200, headers: Mapping[str, str] | None = None
) -> HTMLResponse:
    """`title` is the tab's; the page's own heading is in its content."""
    head = element("head", _HEAD, element("title", title))
    body = element("body", element("main", *content))
    page = "<!doctype html>\n" + element("html", head, "\n", body, lang="en").html
    # A label may hold what UTF-8 cannot say: half of a character, from JSON.
    return HTMLResponse(page.encode("utf-8", "replace"), status, {**SECURITY_HEADERS, **(headers or {})})
