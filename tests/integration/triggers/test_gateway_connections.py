"""Connections of callers that send too much, too slowly, nothing, or all at once."""

import asyncio
import gc
import json
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.integration.triggers.condition_wait import wait_until
from tests.integration.triggers.gateway_server import (
    Gateway,
    running_gateway,
    serving,
    settings_with_package,
    sign_as_github,
    sign_as_standard,
)
from tests.integration.triggers.protocol_server import (
    NewLoop,
    ProtocolServer,
    connect,
    read_answers,
    read_to_end,
    serving_app,
)
from triggers.gateway.connection import MAX_HEAD_BYTES, MAX_PIPELINED
from triggers.gateway.connection_admission import ConnectionTimeouts
from triggers.role_context import open_role_context
from workers.settings import Settings

pytestmark = pytest.mark.integration

PAID = "/hooks/acme/Sales/paid"
OPENED = "/hooks/acme/Sales/opened"
MEGABYTE = 1_048_576
FOR_EVER = 64 * MEGABYTE
# What the kernel holds between the two ends of a connection counts as sent.
SOON = 16 * MEGABYTE
HEAD = b"POST /unread HTTP/1.1\r\nhost: x\r\n"
GET = b"GET /unread HTTP/1.1\r\nhost: x\r\n\r\n"


async def send_for_ever(writer: asyncio.StreamWriter, piece: bytes) -> int:
    sent = 0
    async with asyncio.timeout(60):
        try:
            while sent < FOR_EVER:
                writer.write(piece)
                await writer.drain()
                sent += len(piece)
        except ConnectionError:
            pass
    return sent


def is_too_large(answer: bytes) -> bool:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert b"content-length: %d" % len(body) in head
    assert json.loads(body)["status"] == 431
    return True


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (HEAD, b"x-more: " + b"x" * 4_000 + b"\r\n"),
        (HEAD + b"x-long: ", b"x" * 4_096),
        (b"GET /", b"x" * 4_096),
        (b"POST /read HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-trailer: ", b"x" * 4_096),
        (b"POST /read HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1;extension=", b"x" * 4_096),
        (b"", b"\r\n" * 2_048),
    ],
    ids=["headers", "header", "url", "trailer", "chunk-extension", "blank-lines"],
)
async def test_what_has_no_end_is_cut_off_and_fills_no_memory(
    server: ProtocolServer, start: bytes, piece: bytes
) -> None:
    before = psutil.Process().memory_info().rss
    async with server.connection() as (reader, writer):
        writer.write(start)
        sent = await send_for_ever(writer, piece)
        await read_to_end(reader)

    assert sent < SOON
    assert psutil.Process().memory_info().rss - before < SOON


@pytest.mark.parametrize(
    ("head", "end"),
    [
        (b"GET /unread HTTP/1.1\r\n" + b"a:\r\n" * 10_000, b""),
        (b"POST /hooks/read HTTP/1.1\r\ncontent-length: 9\r\n" + b"a:\r\n" * 10_000, b"\r\n1"),
        (b"GET /unread HTTP/1.1\r\n" + b"a:\r\n" * 10_000, b"\r\n"),
    ],
    ids=["half-a-head", "without-its-body", "idle-after-its-answer"],
)
async def test_many_empty_headers_are_a_large_head(server: ProtocolServer, head: bytes, end: bytes) -> None:
    async with server.connection() as (reader, writer):
        writer.write(head + end)
        assert is_too_large(await read_to_end(reader))


async def test_an_idle_connection_keeps_nothing_of_its_last_request(server: ProtocolServer) -> None:
    async with server.connection() as (reader, writer):
        writer.write(b"GET /kept HTTP/1.1\r\nhost: x\r\n\r\n")
        assert await read_answers(reader) == [b"200 0"]

        async def is_forgotten() -> bool:
            return not [each for each in gc.get_objects() if type(each) is dict and each.get("path") == "/kept"]

        await wait_until(is_forgotten, "the request is forgotten")
        writer.write(GET)
        assert await read_answers(reader) == [b"200 0"]


async def test_requests_that_are_sent_ahead_are_read_up_to_a_bound(
    server: ProtocolServer, caplog: pytest.LogCaptureFixture
) -> None:
    held = b"GET /held HTTP/1.1\r\nhost: x\r\n\r\n"
    async with server.connection() as (reader, writer):
        writer.write(held + GET * MAX_PIPELINED)
        assert await asyncio.to_thread(server.app.request_arrived.wait, 20)
        async with server.connection() as (other_reader, other):
            other.write(held + GET * (MAX_PIPELINED + 1))
            assert await read_to_end(other_reader) == b""
        server.app.answer.set()
        assert await read_answers(reader, MAX_PIPELINED + 1) == [b"200 0"] * (MAX_PIPELINED + 1)

    assert not [line for line in caplog.records if line.exc_info]  # no answer is written to a closed connection


async def test_a_head_above_the_bound_gets_an_error(server: ProtocolServer) -> None:
    async with server.connection() as (reader, writer):
        writer.write(HEAD + b"x-long: " + b"x" * MAX_HEAD_BYTES)
        assert is_too_large(await read_to_end(reader))


async def test_a_head_just_below_the_bound_is_served_whatever_its_pieces(server: ProtocolServer) -> None:
    head = HEAD + b"content-length: 0\r\nx-long: " + b"x" * (MAX_HEAD_BYTES - 500) + b"\r\n\r\n"
    async with server.connection() as (reader, writer):
        for at in range(0, len(head), 8_192):
            writer.write(head[at : at + 8_192])
            await writer.drain()
        assert await read_answers(reader) == [b"200 0"]


async def test_a_head_above_the_bound_is_no_answer_to_the_request_before_it(server: ProtocolServer) -> None:
    async with server.connection() as (reader, writer):
        writer.write(b"GET /held HTTP/1.1\r\nhost: x\r\n\r\n")
        assert await asyncio.to_thread(server.app.request_arrived.wait, 20)
        writer.write(HEAD + b"x-long: " + b"x" * (4 * MAX_HEAD_BYTES))
        assert await read_to_end(reader) == b""


@pytest.fixture
def hurried_server(new_loop: NewLoop) -> Iterator[ProtocolServer]:
    """Waits 0.2 s for a head."""
    with serving_app(new_loop, timeouts=ConnectionTimeouts(head_s=0.2)) as running:
        yield running


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"GET /unr",
        HEAD + b"x-hal",
        b"\r\n",
    ],
)
async def test_half_a_head_is_closed_after_the_time_for_it(hurried_server: ProtocolServer, start: bytes) -> None:
    async with hurried_server.connection() as (reader, writer):
        writer.write(start)
        assert await read_to_end(reader) == b""


async def test_half_a_head_after_an_answer_is_closed_too(hurried_server: ProtocolServer) -> None:
    async with hurried_server.connection() as (reader, writer):
        writer.write(GET)
        assert await read_answers(reader) == [b"200 0"]
        writer.write(b"GET /unr")
        assert await read_to_end(reader) == b""


@pytest.mark.parametrize("rest", [b"12345", b"x" * (MEGABYTE + 1)], ids=["in-part", "in-full"])
async def test_a_body_that_comes_after_its_answer_does_not_keep_the_connection(
    hurried_server: ProtocolServer, rest: bytes
) -> None:
    async with hurried_server.connection() as (reader, writer):
        writer.write(HEAD + b"content-length: %d\r\n\r\n" % (MEGABYTE + 1))
        assert await read_answers(reader) == [b"200 0"]  # too large, so that its app has the word at once
        writer.write(rest)
        assert await read_to_end(reader) == b""


async def test_an_answer_may_take_longer_than_a_head(hurried_server: ProtocolServer) -> None:
    async with hurried_server.connection() as (reader, writer), hurried_server.connection() as (idle, _):
        writer.write(b"GET /held HTTP/1.1\r\nhost: x\r\n\r\nGET /unread HTTP/1.1\r\n")
        assert await asyncio.to_thread(hurried_server.app.request_arrived.wait, 20)
        writer.write(b"host: ")
        assert await read_to_end(idle) == b""  # opened no earlier, and its time is over
        writer.write(b"x\r\n\r\n")
        hurried_server.app.answer.set()
        assert await read_answers(reader, 2) == [b"200 0", b"200 0"]


async def test_a_connection_serves_many_requests_one_by_one_and_pipelined(server: ProtocolServer) -> None:
    body = b"x" * MEGABYTE
    post = b"POST /read HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    async with server.connection() as (reader, writer):
        for _ in range(3):
            writer.write(post)
            assert await read_answers(reader) == [b"200 %d" % MEGABYTE]
        writer.write(post + GET + post + GET)
        assert await read_answers(reader, 4) == [b"200 %d" % MEGABYTE, b"200 0"] * 2


async def test_a_body_in_tiny_chunks_is_a_body(server: ProtocolServer) -> None:
    async with server.connection() as (reader, writer):
        writer.write(b"POST /read HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        writer.write(b"1\r\nx\r\n" * MAX_HEAD_BYTES + b"0\r\n\r\n")
        assert await read_answers(reader) == [b"200 %d" % MAX_HEAD_BYTES]


async def test_a_caller_that_waits_for_our_word_gets_it(server: ProtocolServer) -> None:
    async with server.connection() as (reader, writer):
        writer.write(b"POST /read HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n")
        async with asyncio.timeout(20):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"abc")
        assert await read_answers(reader) == [b"200 3"]


async def test_what_is_no_http_is_refused_once(server: ProtocolServer) -> None:
    async with server.connection() as (reader, writer):
        writer.write(b"\x16\x03\x01" + b"x" * (2 * MAX_HEAD_BYTES))
        said = await read_to_end(reader)

    assert said.count(b"HTTP/1.1") <= 1  # none when the reset overtakes it
    assert b"431" not in said


@pytest.fixture
async def gateway(settings: Settings, tmp_path: Path) -> AsyncIterator[Gateway]:
    async with running_gateway(settings, tmp_path) as running:
        yield running


def order(size: int) -> bytes:
    start = b'{"action": "opened", "title": "t", "number": 7, "padding": "'
    return start + b"x" * (size - len(start) - 2) + b'"}'


async def test_a_body_up_to_the_limit_is_accepted_in_one_write_with_its_head(
    settings: Settings, tmp_path: Path
) -> None:
    wide = replace(settings_with_package(settings, tmp_path), body_limit_bytes=MEGABYTE)
    async with open_role_context(wide) as ground, serving(ground) as gateway:
        for size, status in ((MEGABYTE, b"202"), (MEGABYTE + 1, b"413")):
            call = sign_as_github(order(size), delivery=str(size))
            lines = {"host": "x", "content-length": size, **call["headers"]}
            head = f"POST {OPENED} HTTP/1.1\r\n" + "".join(f"{name}: {each}\r\n" for name, each in lines.items())
            async with connect(gateway.address) as (reader, writer):
                writer.write(head.encode() + b"\r\n" + call["content"])
                [answer] = await read_answers(reader)
            assert answer.startswith(status)
        assert len(await gateway.runs()) == 1


async def test_hundreds_of_silent_connections_block_no_other_caller(gateway: Gateway) -> None:
    silent = [socket.create_connection(gateway.address) for _ in range(200)]
    try:
        assert (await gateway.client.get("/healthz")).status_code == 200
        assert (await gateway.client.post(PAID, **sign_as_standard('{"order": {"id": 7}}'))).status_code == 202
    finally:
        for each in silent:
            each.close()
