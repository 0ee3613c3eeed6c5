"""The thank-you page a browser sees after a form: no state, no script, nothing unescaped."""

import html
import re
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from triggers.gateway.place import Place, find_trigger
from triggers.gateway.problems import ProblemError
from triggers.gateway.reception import Reception
from workflows.package.trigger_specs.form import FormSpec

_RUN_ID = re.compile(r"run_[0-9A-HJKMNP-TV-Z]{26}")

SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Thank you</title>
</head>
<body>
<main>
<h1>Thank you</h1>
<p>We received your form. Its number is <code>{run_id}</code>.</p>
</main>
</body>
</html>
"""


def accepted_location(place: Place, run_id: str) -> str:
    return f"/forms/{place.path}/accepted?run={run_id}"


def accepted_page(reception: Reception) -> Callable[[Request], Awaitable[Response]]:
    async def show(request: Request) -> Response:
        """The number is shown as it stands in the address: nothing is looked up, so nothing is told."""
        find_trigger(reception.catalog.packages(), Place.of(request), FormSpec)
        run_id = request.query_params.get("run", "")
        if not _RUN_ID.fullmatch(run_id):
            raise ProblemError(404, "there is no such page")
        return HTMLResponse(_PAGE.format(run_id=html.escape(run_id)), headers=SECURITY_HEADERS)

    return show
