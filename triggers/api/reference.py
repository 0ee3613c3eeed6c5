"""The API reference at /docs: one page without scripts and other hosts."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from triggers.api.openapi import ApiDescription
from triggers.api.reference_operation import Operation, inline_html, operation_html
from triggers.api.schema_text import Schemas
from triggers.gateway.page_headers import page_headers

_STYLE = Path(__file__).with_suffix(".css")

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} API</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#content">To the operations</a>
<div class="frame">
<nav aria-label="Operations"><a href="#top"><strong>{title} API</strong></a>{menu}</nav>
<main id="content">
<h1 id="top">{title} API</h1>
<p>{description}</p>
<p><a href="/openapi.json">openapi.json</a> has the same content for programs.</p>
<h2>Keys</h2>
<p>Each call needs an API key. The operator of this server creates one, for one app or for all; add
<code>--read-only</code> if reading is enough:</p>
<pre>unattended keys create shop --app acme
export KEY=ua_…</pre>
<p>Each key has a rate limit. Each response shows it: <code>RateLimit-Limit</code> calls at once, of which
<code>RateLimit-Remaining</code> are left; all are available again after <code>RateLimit-Reset</code> seconds. Beyond
that the response is 429, with <code>Retry-After</code>.</p>
<h2>Problems</h2>
<p>An error has the reason and what to do about it, and names invalid fields.</p>
<pre>{problem}</pre>
{operations}
</main>
</div>
</body>
</html>
"""


def reference_page(description: ApiDescription) -> Callable[[Request], Awaitable[Response]]:
    style = _STYLE.read_text(encoding="utf-8")
    headers = page_headers(style)

    @cache
    def page() -> str:
        return page_html(description.document, style)

    async def show(_request: Request) -> Response:
        return HTMLResponse(await asyncio.to_thread(page), headers=headers)

    return show


def page_html(document: Mapping[str, Any], style: str) -> str:
    schemas, by_tag = Schemas(document), _group_by_tag(document)
    problem = document["components"]["schemas"]["Problem"]["examples"][0]
    return _PAGE.format(
        title=escape(document["info"]["title"]),
        style=style,
        menu="".join(_menu_items(by_tag)),
        description=inline_html(document["info"]["description"]),
        problem=escape(json.dumps(problem, indent=2)),
        operations="\n".join(
            f"<h2>{escape(tag)}</h2>\n" + "\n".join(operation_html(operation, schemas) for operation in operations)
            for tag, operations in by_tag.items()
        ),
    )


def _group_by_tag(document: Mapping[str, Any]) -> Mapping[str, list[Operation]]:
    found: dict[str, list[Operation]] = {}
    for path, methods in document["paths"].items():
        for method, spec in methods.items():
            found.setdefault(spec["tags"][0], []).append(Operation(method, path, spec))
    return found


def _menu_items(by_tag: Mapping[str, list[Operation]]) -> Iterator[str]:
    for tag, operations in by_tag.items():
        links = "".join(f'<li><a href="#{escape(item.id)}">{escape(item.summary)}</a></li>' for item in operations)
        yield f"<h2>{escape(tag)}</h2><ul>{links}</ul>"
