"""The runbook page; it needs no login and no store, so that it works during an outage."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from ops.console.console_context import Endpoint
from ops.console.page_renderer import PageRenderer

RUNBOOK_FILE = Path(__file__).resolve().parents[1] / "runbook.md"
_COMMENT = re.compile(r"^<!--.*?-->\n", re.MULTILINE | re.DOTALL)  # for the test that runs the page's commands
_NON_SLUG_CHARACTERS = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    slug: str
    text: str


def runbook_endpoint(renderer: PageRenderer, file: Path = RUNBOOK_FILE) -> Endpoint:
    @cache
    def rendered() -> tuple[Markup, Sequence[Heading]]:
        return render_markdown(file.read_text(encoding="utf-8"))

    async def show(_request: Request) -> Response:
        html, headings = await asyncio.to_thread(rendered)
        return renderer.render("runbook", None, title="Runbook", section="runbook", html=html, headings=headings)

    return show


def render_markdown(markdown: str) -> tuple[Markup, Sequence[Heading]]:
    """Render without HTML tags; links to other files of the repository become text, as they have no page here."""
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    tokens = parser.parse(_COMMENT.sub("", markdown))
    headings = _add_anchors(tokens)
    for token in tokens:
        _remove_dead_links(token)
    return Markup(parser.renderer.render(tokens, parser.options, {})), headings  # noqa: S704 -- escaped by the parser


def _add_anchors(tokens: Sequence[Token]) -> list[Heading]:
    """Name anchors as GitHub does: the second of two equal headings ends in -1."""
    headings: list[Heading] = []
    seen: dict[str, int] = {}
    for token, inline in pairwise(tokens):
        if token.type != "heading_open":
            continue
        text = "".join(part.content for part in inline.children or () if part.type in {"text", "code_inline"})
        slug = _NON_SLUG_CHARACTERS.sub("", text.strip().lower()).replace(" ", "-")
        number = seen.get(slug, 0)
        seen[slug] = number + 1
        slug = f"{slug}-{number}" if number else slug
        token.attrSet("id", slug)
        headings.append(Heading(int(token.tag[1]), slug, text))
    return headings


def _remove_dead_links(token: Token) -> None:
    is_dead = False
    for part in token.children or ():
        if part.type == "link_open":
            is_dead = not str(part.attrGet("href") or "").startswith(("#", "http://", "https://"))
        if is_dead and part.type in {"link_open", "link_close"}:
            part.tag, part.attrs = "span", {}
        if part.type == "image":
            part.type, part.children = "text", None
