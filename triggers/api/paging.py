"""Paging: each page of a listing begins behind the last entry of the previous one.

New entries shift nothing: a cursor has the sort position of an entry, not its number. It also has a digest of the
listing's filters. It grants no access; the caller's key does.
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

from triggers.api.field_types import with_error
from triggers.api.json_responses import to_json_bytes
from triggers.gateway.http_problems import ProblemError

MAX_LIMIT = 1_000
DEFAULT_LIMIT = 100
MAX_PAGE_BYTES = 8 * 1024 * 1024  # a larger page ends early, so that large entries do not fill the memory
MAX_CURSOR_LENGTH = 4_000  # a position may be a few names of 200 letters, in any script
_DIGEST_BYTES = 9
_MAX_NUMBER = 2**53  # of numbers in a position

Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT), with_error(f"must be a whole number from 1 to {MAX_LIMIT}")]
Position = list[str | int]
Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Paging:
    """The parameters of a page.

    `after` is the sort position of the previous page's last entry.
    """

    limit: int
    after: Position | None
    path: str
    query: tuple[tuple[str, str], ...]  # without the cursor

    @property
    def listing_key(self) -> str:
        return urlencode([("", self.path), *sorted(pair for pair in self.query if pair[0] != "limit")])

    def start_after(self, *types: type[str] | type[int]) -> Position | None:
        """Returns `after` if its parts have these types: anyone can build a cursor."""
        if self.after is not None and [type(part) for part in self.after] != list(types):
            raise invalid_cursor()
        return self.after


async def _paging_params(
    request: Request,
    limit: Annotated[Limit, Query(description="Entries per page, at most.")] = DEFAULT_LIMIT,
    cursor: Annotated[
        str | None,
        Query(max_length=MAX_CURSOR_LENGTH, description="`next` of the previous page, with the same filters."),
    ] = None,
) -> Paging:
    return parse_paging(request, limit, cursor)


def parse_paging(request: HTTPConnection, limit: int, cursor: str | None) -> Paging:
    query = tuple(pair for pair in request.query_params.multi_items() if pair[0] != "cursor")
    first = Paging(limit, None, request.url.path, query)
    return first if cursor is None else Paging(limit, _parse_cursor(cursor, first), first.path, query)


PagingParams = Annotated[Paging, Depends(_paging_params)]


async def page_response(
    paging: Paging,
    entries: AsyncIterator[Entry],
    position: Callable[[Entry], Position],
    render: Callable[[Entry], Any],
    *,
    max_bytes: int = MAX_PAGE_BYTES,
) -> Response:
    """Builds a page.

    `entries` begin behind `paging.after`, and have one more than the limit if there are more.
    """
    shown: list[bytes] = []
    size, last, has_more = 0, None, False
    async for entry in entries:
        if len(shown) == paging.limit or size > max_bytes:
            has_more = True
            break
        shown.append(to_json_bytes(render(entry)))
        size, last = size + len(shown[-1]), entry
    next_ = make_cursor(paging, position(last)) if has_more and last is not None else None
    body = b'{"items":[' + b",".join(shown) + b'],"next":' + to_json_bytes(next_) + b"}"
    return Response(body, 200, link_header(paging, next_), "application/json")


def link_header(paging: Paging, next_: str | None) -> Mapping[str, str]:
    return {} if next_ is None else {"link": f'<{page_url(paging, next_)}>; rel="next"'}


def make_cursor(paging: Paging, position: Position) -> str:
    text = json.dumps(position, separators=(",", ":"), ensure_ascii=False).encode()
    return base64.urlsafe_b64encode(_digest(paging, text) + text).decode().rstrip("=")


def _parse_cursor(cursor: str, paging: Paging) -> Position:
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except ValueError:  # also for text that is not ASCII
        raise invalid_cursor() from None
    digest, text = raw[:_DIGEST_BYTES], raw[_DIGEST_BYTES:]
    if digest != _digest(paging, text):
        raise invalid_cursor()
    try:
        position = json.loads(text)
        json.dumps(position, ensure_ascii=False).encode()  # MongoDB takes no lone surrogates
    except (ValueError, RecursionError):
        raise invalid_cursor() from None
    if not isinstance(position, list) or any(isinstance(part, int) and abs(part) > _MAX_NUMBER for part in position):
        raise invalid_cursor()
    return position


def _digest(paging: Paging, text: bytes) -> bytes:
    """Detects a cursor that was cut, changed, or used with other filters.

    It is no secret.
    """
    return hashlib.sha256(paging.listing_key.encode() + b"\0" + text).digest()[:_DIGEST_BYTES]


def invalid_cursor() -> ProblemError:
    """Builds a 404, since a cursor is part of a page's address."""
    detail = "leads to no page of this listing with these filters; begin without one"
    return ProblemError(404, "cursor: " + detail, members={"errors": {"cursor": detail}})


def page_url(paging: Paging, cursor: str) -> str:
    return f"{paging.path}?{urlencode([*paging.query, ('cursor', cursor)])}"
