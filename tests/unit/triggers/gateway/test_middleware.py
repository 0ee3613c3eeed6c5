"""Drain: an answer 413 goes out before anything is dropped, and what is dropped has an end."""

import asyncio
from collections.abc import Sequence

import pytest
from starlette.types import Message, Receive, Scope, Send

from triggers.gateway.middleware import DRAIN_TIMEOUT_S, DrainMiddleware

SCOPE: Scope = {"type": "http"}


class ScriptedCaller:
    """Notes the order in which it is read from and written to."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = list(messages)
        self.seen: list[object] = []

    async def receive(self) -> Message:
        self.seen.append("read")
        return self._messages.pop(0) if len(self._messages) > 1 else self._messages[0]

    async def send(self, message: Message) -> None:
        self.seen.append((message["type"].rpartition(".")[2], message.get("body"), message.get("more_body", False)))


def part(*, more_body: bool) -> Message:
    return {"type": "http.request", "body": b"x", "more_body": more_body}


async def answer_and_drain(
    caller: ScriptedCaller, status: int, *, reads: int = 0, timeout_s: float = DRAIN_TIMEOUT_S
) -> list[object]:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        for _ in range(reads):
            await receive()
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})

    await DrainMiddleware(app, timeout_s=timeout_s)(SCOPE, caller.receive, caller.send)
    return caller.seen


START, WHOLE, PART, END = ("start", None, False), ("body", b"no", False), ("body", b"no", True), ("body", b"", False)


@pytest.mark.parametrize(
    ("messages", "status", "reads", "seen"),
    [
        ([part(more_body=True), part(more_body=False)], 413, 0, [START, PART, "read", "read", END]),
        ([part(more_body=True), {"type": "http.disconnect"}], 413, 1, ["read", START, PART, "read", END]),
        ([part(more_body=False)], 413, 1, ["read", START, WHOLE]),
        ([part(more_body=True)], 401, 0, [START, WHOLE]),
    ],
    ids=["to-its-end", "until-it-leaves", "read-already", "another-answer"],
)
async def test_an_answer_is_sent_before_the_rest_is_dropped(
    messages: list[Message], status: int, reads: int, seen: list[object]
) -> None:
    assert await answer_and_drain(ScriptedCaller(messages), status, reads=reads) == seen


async def test_a_caller_that_sends_without_end_is_left() -> None:
    assert (await answer_and_drain(EndlessCaller([part(more_body=True)]), 413, timeout_s=0.0))[-1] == END


class EndlessCaller(ScriptedCaller):
    async def receive(self) -> Message:
        await asyncio.sleep(0)
        return await super().receive()
