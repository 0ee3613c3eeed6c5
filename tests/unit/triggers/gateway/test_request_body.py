"""Bodies: strict JSON or a problem, never another error."""

import asyncio
import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.types import Message

from tests.unit.triggers.property_settings import without_deadline
from triggers.gateway.http_problems import ProblemError
from triggers.gateway.request_body import check_declared_size, is_json_type, parse_json, read_body


@without_deadline
@given(st.binary() | st.text().map(str.encode) | st.text('[]{}",:0123456789eE.-tfn').map(str.encode))
@example(b"[" * 1_000_000)
@example(b'{"a":' * 100_000)
@example(b"NaN")
@example(b"1e999")
@example(b"9" * 10_000)
@example(b'\xef\xbb\xbf{"a": 1}')
@example(b'{"a": "\xff"}')
def test_any_bytes_are_json_or_a_problem(raw_body: bytes) -> None:
    with contextlib.suppress(ProblemError):
        parse_json(raw_body)


@pytest.mark.parametrize("raw_body", [b"NaN", b"[Infinity]", b"-Infinity", b"1e999", b""])
def test_what_is_not_json_is_refused(raw_body: bytes) -> None:
    with pytest.raises(ProblemError) as refused:
        parse_json(raw_body)
    assert refused.value.status == 400


def test_json_types() -> None:
    assert is_json_type("application/json")
    assert is_json_type("application/cloudevents+json")
    assert not is_json_type("text/json")
    assert not is_json_type("application/x-www-form-urlencoded")
    assert not is_json_type("")


def request_of(*messages: Message) -> Request:
    """The messages, and then silence."""
    left = list(messages)

    async def receive() -> Message:
        return left.pop(0) if left else await asyncio.get_running_loop().create_future()

    return Request({"type": "http", "headers": []}, receive)


def chunk(content: bytes, *, more_body: bool) -> Message:
    return {"type": "http.request", "body": content, "more_body": more_body}


async def test_a_body_at_the_limit_is_read() -> None:
    assert await read_body(request_of(chunk(b"ab", more_body=True), chunk(b"c", more_body=False)), 3) == b"abc"


async def test_a_body_that_trickles_is_given_up() -> None:
    with pytest.raises(ProblemError) as refused:
        await read_body(request_of(chunk(b"a", more_body=True)), 3, timeout_s=0.01)
    assert refused.value.status == 408


async def test_a_client_that_leaves_is_no_error_of_ours() -> None:
    with pytest.raises(ProblemError) as refused:
        await read_body(request_of(chunk(b"a", more_body=True), {"type": "http.disconnect"}), 3)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("declared", "is_refused"),
    [("3", False), ("4", True), ("9" * 5_000, True), ("0003", False), ("", False), ("-4", False), ("four", False)],
)
def test_what_is_declared_too_large_is_refused_without_a_look_at_the_body(declared: str, is_refused: bool) -> None:
    request = Request({"type": "http", "headers": [(b"content-length", declared.encode())]})  # nothing to read from
    with pytest.raises(ProblemError) if is_refused else contextlib.nullcontext() as refused:
        check_declared_size(request, 3)
    assert refused is None or (refused.value.status, refused.value.headers) == (413, {"connection": "close"})


async def test_a_chunk_too_much_is_refused_at_once() -> None:
    with pytest.raises(ProblemError) as refused:
        await read_body(request_of(chunk(b"ab", more_body=True), chunk(b"cd", more_body=True)), 3)
    assert refused.value.status == 413
