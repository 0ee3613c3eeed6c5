"""Cursors: each leads to its own page of its own listing, and anything else to none."""

import base64
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request

from tests.unit.triggers.property_settings import without_deadline
from triggers.api import paging
from triggers.api.paging import Paging, Position, make_cursor, page_response
from triggers.gateway.http_problems import ProblemError


async def read(query: str, path: str = "/v1/runs") -> Paging:
    request = Request({"type": "http", "path": path, "query_string": query.encode(), "headers": [], "method": "GET"})
    cursor = request.query_params.get("cursor")
    return await paging._paging_params(request, int(request.query_params.get("limit", "100")), cursor)


@settings(without_deadline)
@given(st.lists(st.integers(-(2**53), 2**53) | st.text(max_size=40), min_size=1, max_size=3))
async def test_a_cursor_holds_the_position_it_was_made_of(position: Position) -> None:
    cursor = make_cursor(await read("state=queued&limit=5"), position)

    again = await read(f"cursor={cursor}&state=queued&limit=9")

    assert again.start_after(*(type(part) for part in position)) == position


@settings(without_deadline)
@given(st.data())
async def test_a_changed_cursor_is_none(data: st.DataObject) -> None:
    cursor = make_cursor(await read(""), [1_700_000_000_000, "run_1"])
    raw = bytearray(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    changed = base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("=")

    with pytest.raises(ProblemError) as told:
        await read(f"cursor={changed}")
    assert told.value.status == 404


@settings(without_deadline)
@given(st.text(max_size=100))
async def test_any_text_is_answered_and_never_an_error_of_ours(text: str) -> None:
    request = Request({"type": "http", "path": "/v1/runs", "query_string": b"", "headers": [], "method": "GET"})

    with pytest.raises(ProblemError):
        await paging._paging_params(request, 100, text)


async def test_a_cursor_with_text_that_no_store_takes_is_none() -> None:
    text = b'["\\ud800"]'
    cursor = base64.urlsafe_b64encode(paging._digest(await read(""), text) + text).decode().rstrip("=")

    with pytest.raises(ProblemError) as told:
        await read(f"cursor={cursor}")
    assert told.value.status == 404


async def test_a_cursor_is_of_one_address_and_one_filter() -> None:
    cursor = make_cursor(await read("state=queued"), ["x"])

    for query, path in (("", "/v1/runs"), ("state=failed&", "/v1/runs"), ("state=queued&", "/v1/triggers")):
        with pytest.raises(ProblemError):
            await read(f"{query}cursor={cursor}", path)
    assert (await read(f"limit=3&state=queued&cursor={cursor}")).start_after(str) == ["x"]


async def test_a_page_ends_at_the_limit_and_leads_on_where_there_is_more() -> None:
    async def entries(number: int, size: int = 1) -> AsyncIterator[Mapping[str, Any]]:
        for each in range(number):
            yield {"n": each, "text": "x" * size}

    async def page(number: int, size: int = 1, **bounds: int) -> tuple[int, bool]:
        asked = await read("limit=3&state=queued")
        answer = await page_response(
            asked, entries(number, size), lambda entry: [entry["n"]], lambda entry: entry, **bounds
        )
        assert ("link" in answer.headers) == (b'"next":null' not in bytes(answer.body))
        return bytes(answer.body).count(b'"n":'), "link" in answer.headers

    assert [await page(number) for number in (0, 2, 3, 4)] == [(0, False), (2, False), (3, False), (3, True)]
    assert await page(4, size=80, max_bytes=100) == (2, True)
    assert await page(2, size=80, max_bytes=100) == (2, False)
