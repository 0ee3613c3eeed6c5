"""The runbook as a page, for whoever an alert has woken: without login, and without asking any store."""

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

from ops.console.context import Endpoint
from ops.console.page_renderer import PageRenderer

RUNBOOK_FILE = Path(__file__).resolve().parents[1] / "runbook.md"
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
    """Tags in the text are text. Links to other files of the repository lead nowhere here, and become text too."""
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    tokens = parser.parse(markdown)
    headings = _add_anchors(tokens)
    for token in tokens:
        _remove_dead_links(token)
    return Markup(parser.renderer.render(tokens, parser.options, {})), headings  # noqa: S704 -- escaped by the parser


def _add_anchors(tokens: Sequence[Token]) -> list[Heading]:
    """As GitHub names them: of two with one name the second ends in -1."""
    found: list[Heading] = []
    seen: dict[str, int] = {}
    for token, inline in pairwise(tokens):
        if token.type != "heading_open":
            continue
        text = "".join(each.content for each in inline.children or () if each.type in {"text", "code_inline"})
        slug = _NON_SLUG_CHARACTERS.sub("", text.strip().lower()).replace(" ", "-")
        number = seen.get(slug, 0)
        seen[slug] = number + 1
        slug = f"{slug}-{number}" if number else slug
        token.attrSet("id", slug)
        found.append(Heading(int(token.tag[1]), slug, text))
    return found


def _remove_dead_links(token: Token) -> None:
    is_dead = False
    for each in token.children or ():
        if each.type == "link_open":
            is_dead = not str(each.attrGet("href") or "").startswith(("#", "http://", "https://"))
        if is_dead and each.type in {"link_open", "link_close"}:
            each.tag, each.attrs = "span", {}
        if each.type == "image":
            each.type, each.children = "text", None
