"""Pages: a listing in pieces, each of which begins behind the last entry of the one before.

What is added meanwhile moves nothing: an entry is found by its place in the order, not by its number. A cursor says
that place, and for which question; it gives no right to see anything, which the caller's key does.
"""

import base64
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Depends, Query, Request, Response
from pydantic import Field
from starlette.requests import HTTPConnection

from triggers.api.answers import json_bytes
from triggers.api.field_types import said
from triggers.gateway.problems import ProblemError

MOST = 1_000
USUAL = 100
MAX_PAGE_BYTES = 8 * 1024 * 1024  # a page with more ends early: large entries must not fill the memory
MAX_CURSOR = 4_000  # a place may be a few names of 200 letters, in any script
_DIGEST_BYTES = 9
_MOST = 2**53  # of numbers in a position

Limit = Annotated[int, Field(ge=1, le=MOST), said(f"must be a whole number from 1 to {MOST}")]
Position = list[str | int]
Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Paging:
    """`after`: the position that the last page ended at, as whoever made the page wrote it."""

    limit: int
    after: Position | None
    path: str
    query: tuple[tuple[str, str], ...]  # without the cursor

    @property
    def question(self) -> str:
        return urlencode([("", self.path), *sorted(pair for pair in self.query if pair[0] != "limit")])

    def behind(self, *types: type[str] | type[int]) -> Position | None:
        """`after`, if it is made of these: anybody can make a cursor."""
        if self.after is not None and [type(part) for part in self.after] != list(types):
            raise bad_cursor()
        return self.after


async def _paging(
    request: Request,
    limit: Annotated[Limit, Query(description="At most so many on one page.")] = USUAL,
    cursor: Annotated[
        str | None, Query(max_length=MAX_CURSOR, description="`next` of the page before, with the same filters.")
    ] = None,
) -> Paging:
    return paging_of(request, limit, cursor)


def paging_of(request: HTTPConnection, limit: int, cursor: str | None) -> Paging:
    query = tuple(pair for pair in request.query_params.multi_items() if pair[0] != "cursor")
    first = Paging(limit, None, request.url.path, query)
    return first if cursor is None else Paging(limit, _position(cursor, first), first.path, query)


Page = Annotated[Paging, Depends(_paging)]


async def page_answer(
    paging: Paging,
    entries: AsyncIterator[Entry],
    position: Callable[[Entry], Position],
    show: Callable[[Entry], Any],
    *,
    max_bytes: int = MAX_PAGE_BYTES,
) -> Response:
    """`entries` come from behind `paging.after`, and are at least one more than the limit where there are so many."""
    shown: list[bytes] = []
    size, last, more = 0, None, False
    async for entry in entries:
        if len(shown) == paging.limit or size > max_bytes:
            more = True
            break
        shown.append(json_bytes(show(entry)))
        size, last = size + len(shown[-1]), entry
    next_ = cursor_of(paging, position(last)) if more and last is not None else None
    body = b'{"items":[' + b",".join(shown) + b'],"next":' + json_bytes(next_) + b"}"
    return Response(body, 200, link_to(paging, next_), "application/json")


def link_to(paging: Paging, next_: str | None) -> Mapping[str, str]:
    return {} if next_ is None else {"link": f'<{address_of(paging, next_)}>; rel="next"'}


def cursor_of(paging: Paging, position: Position) -> str:
    said = json.dumps(position, separators=(",", ":"), ensure_ascii=False).encode()
    return base64.urlsafe_b64encode(_digest(paging, said) + said).decode().rstrip("=")


def _position(cursor: str, paging: Paging) -> Position:
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except ValueError:  # also what is not ASCII
        raise bad_cursor() from None
    digest, said = raw[:_DIGEST_BYTES], raw[_DIGEST_BYTES:]
    if digest != _digest(paging, said):
        raise bad_cursor()
    try:
        position = json.loads(said)
    except (ValueError, RecursionError):
        raise bad_cursor() from None
    if not isinstance(position, list) or any(isinstance(part, int) and abs(part) > _MOST for part in position):
        raise bad_cursor()
    return position


def _digest(paging: Paging, said: bytes) -> bytes:
    """Not a secret: it finds a cursor that was cut, changed, or taken to another question."""
    return hashlib.sha256(paging.question.encode() + b"\0" + said).digest()[:_DIGEST_BYTES]


def bad_cursor() -> ProblemError:
    """404: it is the address of a page, and there is no such page."""
    said = "leads to no page of this listing with these filters; begin without one"
    return ProblemError(404, "cursor: " + said, members={"errors": {"cursor": said}})


def address_of(paging: Paging, cursor: str) -> str:
    return f"{paging.path}?{urlencode([*paging.query, ('cursor', cursor)])}"
