"""Request slots: which requests get one, wait for one, or are closed to make room."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager

import psutil
import pytest

from tests.integration.triggers.condition_wait import wait_until
from tests.integration.triggers.protocol_server import (
    MEGABYTE,
    NewLoop,
    Pair,
    ProtocolServer,
    read_answers,
    read_to_end,
    serving_app,
)
from triggers.gateway.connection import MIN_BODY_BYTES_PER_S
from triggers.gateway.connection_admission import SLOTS, ConnectionTimeouts

pytestmark = pytest.mark.integration

HELD = b"GET /held HTTP/1.1\r\nhost: x\r\n\r\n"
UNREAD = b"GET /unread HTTP/1.1\r\nhost: x\r\n\r\n"


def post(path: str, length: int, *lines: str) -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "host: x", f"content-length: {length}", *lines, "", ""]).encode()


@asynccontextmanager
async def callers(server: ProtocolServer, count: int, head: bytes = b"") -> AsyncIterator[list[Pair]]:
    async with AsyncExitStack() as stack:
        pairs = [await stack.enter_async_context(server.connection()) for _ in range(count)]
        for _, writer in pairs:
            writer.write(head)
        yield pairs


async def wait_for_callers(server: ProtocolServer, count: int) -> None:
    async def are_there() -> bool:
        return server.waiting_for_body() == count

    await wait_until(are_there, f"{count} wait for their bodies")


async def wait_for_begun(server: ProtocolServer, count: int) -> None:
    async def are_held() -> bool:
        return server.app.paths == ["/held"] * count

    await wait_until(are_held, f"{count} requests are worked on")


async def test_a_request_begins_when_its_body_has_arrived(server: ProtocolServer) -> None:
    async with server.connection() as (reader, writer):
        for _ in range(2):  # also the second one of a connection
            writer.write(post("/hooks/read", 9) + b"1")
            await wait_for_callers(server, 1)
            assert server.app.paths == []
            writer.write(b"23456789")
            assert await read_answers(reader) == [b"200 9"]
            assert server.waiting_for_body() == 0
            server.app.paths.clear()


async def test_callers_without_their_bodies_take_no_slot(new_loop: NewLoop) -> None:
    with serving_app(new_loop, places={**SLOTS, "hooks": 1}) as server:
        async with callers(server, 20, post("/hooks/read", 9) + b"1"), server.connection() as (reader, writer):
            await wait_for_callers(server, 20)
            writer.write(post("/hooks/read", 2) + b"ab")
            assert await read_answers(reader) == [b"200 2"]


@pytest.mark.parametrize(
    ("path", "accept", "kind"),
    [
        ("/hooks/read", "*/*", b"application/problem+json"),
        ("/forms/read", "text/html", b"text/html; charset=utf-8"),
        ("/console/read", "text/html", b"text/html; charset=utf-8"),
    ],
)
async def test_a_full_share_gets_retry_after_and_the_others_have_room(
    new_loop: NewLoop, path: str, accept: str, kind: bytes
) -> None:
    full = "/".join(path.split("/")[:2]) + "/held"
    with serving_app(new_loop, places=dict.fromkeys(SLOTS, 1)) as server:
        async with server.connection() as (holding, holder), server.connection() as (reader, writer):
            holder.write(post(full, 0))
            assert await asyncio.to_thread(server.app.request_arrived.wait, 20)

            writer.write(post(path, 1, f"accept: {accept}", "connection: close") + b"x")
            head, _, body = (await read_to_end(reader)).partition(b"\r\n\r\n")

            assert head.startswith(b"HTTP/1.1 503 ")
            assert b"content-type: " + kind in head
            assert b"retry-after: " in head
            assert kind != b"application/problem+json" or json.loads(body)["status"] == 503
            assert server.metric("requests_refused_total", route=path.split("/")[1]) == 1
            for other in ("/hooks/read", "/forms/read", "/v1/read", "/console/read", "/read", "/healthz", "/metrics"):
                async with server.connection() as (another, asking):
                    asking.write(post(other, 1) + b"x")
                    [answer] = await read_answers(another)
                    is_full = other == path
                    assert answer.startswith(b"503" if is_full else b"200"), other
            server.app.answer.set()
            assert await read_answers(holding) == [b"200 0"]
        async with server.connection() as (reader, writer):
            writer.write(post(path, 1) + b"x")
            assert await read_answers(reader) == [b"200 1"]


async def test_a_body_that_is_too_slow_gets_an_error_after_its_time(new_loop: NewLoop) -> None:
    with serving_app(new_loop, timeouts=ConnectionTimeouts(rate_interval_s=0.1, body_s=0.3)) as server:
        async with server.connection() as (reader, writer):
            writer.write(post("/hooks/read", 9) + b"1")
            answer = await read_to_end(reader)

        assert answer.startswith(b"HTTP/1.1 408 ")
        assert server.app.paths == []
        assert server.metric("connections_closed_total", reason="body_timeout") == 1


async def test_a_large_body_begins_while_it_arrives_fast_enough(new_loop: NewLoop) -> None:
    enough = MIN_BODY_BYTES_PER_S // 5 + 1
    with serving_app(new_loop, timeouts=ConnectionTimeouts(rate_interval_s=0.2)) as server:
        async with server.connection() as (reader, writer), server.connection() as (_, slow):
            slow.write(post("/hooks/read", 50_000) + b"x" * (enough // 3))
            writer.write(post("/hooks/held", 50_000) + b"x" * enough)
            assert await asyncio.to_thread(server.app.request_arrived.wait, 20)
            assert server.app.paths == ["/hooks/held"]
            assert server.waiting_for_body() == 2  # it may still be closed to make room
            server.app.answer.set()
            assert await read_answers(reader) == [b"200 0"]


async def test_an_arriving_body_yields_its_slot_to_an_arrived_one(new_loop: NewLoop) -> None:
    with serving_app(new_loop, places={**SLOTS, "hooks": 1}) as server:
        async with server.connection() as (arriving, uploader), server.connection() as (reader, writer):
            uploader.write(post("/hooks/read", MEGABYTE) + b"x" * 200_000)

            async def has_begun() -> bool:
                return server.app.paths == ["/hooks/read"]

            await wait_until(has_begun, "the large body is being read")
            writer.write(post("/hooks/read", 2) + b"ab")

            assert await read_answers(reader) == [b"200 2"]
            assert (await read_to_end(arriving)).startswith(b"HTTP/1.1 503 ")
            assert server.metric("connections_closed_total", reason="crowded") == 1


async def test_the_oldest_that_waits_makes_room_and_what_is_served_lives_on(new_loop: NewLoop) -> None:
    with serving_app(new_loop, max_connections=16) as server:
        async with AsyncExitStack() as stack:
            held, holder = await stack.enter_async_context(server.connection())
            holder.write(HELD + post("/hooks/read", 9))  # the request behind it changes nothing for it
            assert await asyncio.to_thread(server.app.request_arrived.wait, 20)
            strangers = await stack.enter_async_context(callers(server, 40, post("/hooks/read", 9)))
            for _ in range(3):
                async with server.connection() as (reader, writer):
                    writer.write(post("/hooks/read", 2) + b"ab")
                    assert await read_answers(reader) == [b"200 2"]
            oldest, _ = strangers[0]
            said = await read_to_end(oldest)
            assert not said or said.startswith(b"HTTP/1.1 503 ")  # nothing if its head was not read yet
            assert server.metric("connections_closed_total", reason="crowded") >= 25
            server.app.answer.set()
            assert await read_answers(held) == [b"200 0"]


async def test_accepting_stops_while_all_are_served_and_goes_on_after(new_loop: NewLoop) -> None:
    with serving_app(new_loop, max_connections=2) as server:
        async with callers(server, 1, HELD) as first:
            await wait_for_begun(server, 1)  # before that it would make room for the other
            async with callers(server, 1, HELD) as second:
                await wait_for_begun(server, 2)
                async with server.connection() as (reader, writer):
                    writer.write(UNREAD)

                    async def has_stopped() -> bool:
                        return server.metric("accept_pauses_total") == 1

                    await wait_until(has_stopped, "no further connection is accepted")
                    assert server.app.paths == ["/held"] * 2
                    server.app.answer.set()
                    for reader_of_held, closing in (*first, *second):
                        assert await read_answers(reader_of_held) == [b"200 0"]
                        closing.close()
                    assert await read_answers(reader) == [b"200 0"]


@pytest.mark.parametrize("sends", [b"", b"x" * 200_000], ids=["head-only", "goes-on"])
async def test_a_call_that_declares_too_much_is_refused_and_holds_no_slot(new_loop: NewLoop, sends: bytes) -> None:
    with serving_app(new_loop, places={**SLOTS, "hooks": 0}) as server:
        async with server.connection() as (reader, writer):
            writer.write(post("/hooks/refused", MEGABYTE + 1) + sends)
            assert await read_answers(reader) == [b"413 0"]
            began = time.monotonic()
            writer.write(b"x" * 100_000)  # still read, and dropped
            assert await read_to_end(reader) == b""
            assert time.monotonic() - began < 10


async def test_a_caller_that_reads_no_answers_is_closed(new_loop: NewLoop) -> None:
    with (
        serving_app(new_loop, timeouts=ConnectionTimeouts(unread_s=0.2)) as server,
        socket.socket() as caller,
    ):
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        caller.connect(server.address)
        caller.sendall(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n" * 3)

        async def is_closed() -> bool:
            return server.metric("connections_closed_total", reason="unread_answer") == 1

        await wait_until(is_closed, "its connection is closed")
        assert server.app.paths == ["/large"]  # a request behind an unread answer is not begun


@pytest.mark.parametrize("connection", ["close", "keep-alive"])
async def test_a_connection_that_only_waits_to_be_read_makes_room(new_loop: NewLoop, connection: str) -> None:
    with serving_app(new_loop, max_connections=4) as server, ExitStack() as stack:
        for _ in range(3):
            caller = stack.enter_context(socket.socket())
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            caller.connect(server.address)
            caller.sendall(f"GET /large HTTP/1.1\r\nhost: x\r\nconnection: {connection}\r\n\r\n".encode())

        async def are_answered() -> bool:
            return len(server.app.paths) == 3

        await wait_until(are_answered, "all are answered")
        async with server.connection() as (reader, writer):
            writer.write(UNREAD)
            assert await read_answers(reader) == [b"200 0"]
        assert server.metric("connections_closed_total", reason="crowded") >= 1


async def test_what_waits_costs_a_few_kilobytes(new_loop: NewLoop) -> None:
    with serving_app(new_loop) as server:
        async with callers(server, 50, post("/hooks/read", 9)):
            await wait_for_callers(server, 50)
            before = psutil.Process().memory_info().rss
            async with callers(server, 500, post("/hooks/read", 9)):
                await wait_for_callers(server, 550)
                # Both ends are in this process: the server's is less than half of it.
                assert (psutil.Process().memory_info().rss - before) / 500 < 60_000


async def test_a_server_that_stops_waits_for_no_body(new_loop: NewLoop) -> None:
    with serving_app(new_loop) as server:
        async with callers(server, 3, post("/hooks/read", 9)) as pairs:
            await wait_for_callers(server, 3)
            began = time.monotonic()
            await asyncio.to_thread(server.stop)
            assert time.monotonic() - began < 5
            assert [await read_to_end(reader) for reader, _ in pairs] == [b""] * 3
