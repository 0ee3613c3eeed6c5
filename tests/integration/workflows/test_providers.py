"""Providers through their real libraries: chats with servers that speak their protocols."""

import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest
from ag2 import Agent
from ag2.response import ResponseSchema
from pydantic import BaseModel

from accounting.usage import ModelCall, Tokens
from tests.integration.model_server import Answer, ModelServer, model_server
from tests.integration.workflows.protocols import ANTHROPIC, CHAT, GEMINI, OLLAMA, PROTOCOLS, RESPONSES, Protocol
from tests.unit.workflows.chats import THREADS, Chat
from tests.unit.workflows.packages import load, write_tool
from workflows.chat.agents import build_package
from workflows.chat.errors import ModelError
from workflows.chat.fast_stream import FastStream
from workflows.chat.live import LiveTurn
from workflows.chat.meter import RunMeter
from workflows.chat.models import Models
from workflows.models_file import read_models_file
from workflows.outcome import OutcomeKind

pytestmark = pytest.mark.integration

KEY = "sk-canary-0815"
READ_TOOL = """
def read(region: str, *, context_variables=None) -> dict:
    return {"orders": 3, "region": region}
"""


def models_of(protocol: Protocol, server: ModelServer, folder: Path, **options: Any) -> Models:
    spec = {
        "provider": protocol.provider,
        "model": "m",
        "base_url": server.root + protocol.version,
        "api_key": "env:KEY",
        **options,
    }
    file = folder / "models.yaml"
    file.write_text(json.dumps({"models": {"default": spec}}), encoding="utf-8")
    return Models(read_models_file(file).models, lambda _: KEY)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_a_chat_with_tools_reaches_the_server_and_its_usage_the_ledger(
    protocol: Protocol, stream: bool, tmp_path: Path
) -> None:
    answer = protocol.streamed if stream else protocol.answer
    answers = [answer(None, ("read", {"region": "eu"})), answer("3 orders", None)]
    folder = tmp_path / "Small"
    write_tool(folder, "read.py", READ_TOOL)
    agents = {"agents": [{"name": "A", "system_message": "You are the reader."}]}
    tools = {"tools": [{"agent": "A", "file": "read.py", "function": "read"}]}

    with model_server(lambda number: answers[number]) as server:
        models = models_of(protocol, server, tmp_path, stream=stream, temperature=0.5, max_tokens=77)
        package = load(folder, agents=agents, tools=tools)
        outcome, kept = await Chat(build_package(package, models, THREADS)).run()
        await models.close()

    assert outcome.kind is OutcomeKind.COMPLETED, outcome
    assert [turn.text for turn in kept.turns] == ["3 orders"]
    assert server.paths == [protocol.stream_path if stream else protocol.path] * 2
    for request, headers in zip(server.requests, server.headers, strict=True):
        assert protocol.system(request).startswith("You are the reader.")
        assert protocol.tools(request) == ["read"]
        assert (protocol.limit(request), protocol.temperature(request)) == (77, 0.5)
        assert protocol.key(headers) == KEY
    assert "orders" in json.dumps(server.requests[1])
    assert "orders" not in json.dumps(server.requests[0])
    assert [(call.provider, call.model, call.status, call.ok) for call in kept.calls] == [
        (protocol.provider, "m", "reported", True)
    ] * 2
    assert [call.tokens for call in kept.calls] == [protocol.tokens] * 2


@dataclass
class Desk:
    """One model that is asked directly, in a turn that is there for its meter only."""

    models: Models
    calls: list[ModelCall] = field(default_factory=list)

    async def ask(self, **options: Any) -> Any:
        agent = Agent("A", ["You are A."], config=self.models.get("default"))
        limits = SimpleNamespace(model_calls=10, tokens=None, usd=None, tool_calls=10)
        package = SimpleNamespace(orchestrator=SimpleNamespace(limits=limits))
        meter = RunMeter(self._record)
        chat = cast("Any", SimpleNamespace(meter=meter, counters=meter.counters, package=package))
        with LiveTurn(chat, "A", 1).current():
            return await agent.ask("How many?", stream=FastStream(), **options)

    async def answer_or_error(self) -> Any:
        try:
            return await self.ask()
        except ModelError as error:
            return error

    async def _record(self, call: ModelCall) -> None:
        self.calls.append(call)


@asynccontextmanager
async def desk(
    protocol: Protocol, plan: Callable[[int], Answer], folder: Path, **options: Any
) -> AsyncIterator[tuple[Desk, ModelServer]]:
    with model_server(plan) as server:
        models = models_of(protocol, server, folder, **options)
        try:
            yield Desk(models), server
        finally:
            await models.close()


class Count(BaseModel):
    orders: int


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_an_output_model_reaches_the_server_as_a_schema(protocol: Protocol, tmp_path: Path) -> None:
    answer = protocol.answer('{"orders": 3}', None)

    async with desk(protocol, lambda _: answer, tmp_path) as (at, server):
        reply = await at.ask(response_schema=ResponseSchema(Count))

        assert await reply.content() == Count(orders=3)
    assert protocol.schema(server.requests[0])["properties"]["orders"]["type"].lower() == "integer"


async def failed(protocol: Protocol, answer: Answer, folder: Path, **options: Any) -> tuple[ModelError, ModelCall]:
    async with desk(protocol, lambda _: answer, folder, **options) as (at, server):
        with pytest.raises(ModelError) as caught:
            await at.ask()
        assert len(server.requests) == 1  # the library tried once
    assert KEY not in str(caught.value)
    [call] = at.calls
    assert not call.ok
    return caught.value, call


def refusal(status: int, body: Any, **headers: str) -> Answer:
    return status, {"content-type": "application/json", **headers}, json.dumps(body).encode()


WORDS = "model 'm' not found,\n try another"
REFUSALS = {
    "openai": {"error": {"message": WORDS, "type": "invalid_request_error", "code": None}},
    "openai_responses": {"error": {"message": WORDS, "type": "invalid_request_error", "code": None}},
    "anthropic": {"type": "error", "error": {"type": "not_found_error", "message": WORDS}},
    "gemini": {"error": {"code": 404, "message": WORDS, "status": "NOT_FOUND"}},
    "ollama": {"error": WORDS},
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_a_refusal_says_provider_status_and_the_servers_words(
    protocol: Protocol, stream: bool, tmp_path: Path
) -> None:
    answer = refusal(404, REFUSALS[protocol.provider])

    error, call = await failed(protocol, answer, tmp_path, stream=stream)

    assert str(error) == f"{protocol.provider} answered 404: model 'm' not found, try another"
    assert not error.transient
    assert call.status == "missing"


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_a_key_that_the_server_repeats_is_not_said(protocol: Protocol, tmp_path: Path) -> None:
    error, _ = await failed(protocol, refusal(401, {"error": {"message": f"Wrong key: {KEY}."}}), tmp_path)

    assert str(error) == f"{protocol.provider} answered 401: Wrong key: (hidden)."


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_a_status_that_passes_is_worth_another_attempt(protocol: Protocol, status: int, tmp_path: Path) -> None:
    error, _ = await failed(protocol, refusal(status, {}, **{"retry-after": "7"}), tmp_path)

    assert error.transient
    # Ollama's library keeps no headers.
    assert error.retry_after_s == (None if protocol is OLLAMA else 7.0)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
@pytest.mark.parametrize(
    ("kind", "body"),
    [("text/html", b"<html>Sign in</html>"), ("application/json", b"<html>"), ("application/json", b"[]")],
)
async def test_a_page_of_a_proxy_is_worth_another_attempt(
    protocol: Protocol, stream: bool, kind: str, body: bytes, tmp_path: Path
) -> None:
    async with desk(protocol, lambda _: (200, {"content-type": kind}, body), tmp_path, stream=stream) as (at, _):
        outcome = await at.answer_or_error()

    if isinstance(outcome, ModelError):
        assert outcome.transient, outcome
        assert "html" not in str(outcome)
    else:  # some libraries make an empty answer of it, which a turn does not accept
        assert not outcome.body


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_half_an_answer_is_none(protocol: Protocol, stream: bool, tmp_path: Path) -> None:
    status, headers, body = (protocol.streamed if stream else protocol.answer)("Three hundred orders", None)
    cut = (status, {**headers, "content-length": str(len(body)), "connection": "close"}, body[: len(body) // 2])

    error, _ = await failed(protocol, cut, tmp_path, stream=stream)

    assert error.transient


@pytest.mark.parametrize(("protocol", "parts"), [(CHAT, 2), (RESPONSES, 2), (ANTHROPIC, 4), (OLLAMA, 1)], ids=str)
async def test_a_stream_that_ends_early_in_good_order_is_no_answer(
    protocol: Protocol, parts: int, tmp_path: Path
) -> None:
    status, headers, body = protocol.streamed("Three hundred orders", None)
    separator = b"\n" if protocol is OLLAMA else b"\n\n"
    short = separator.join(body.split(separator)[:parts]) + separator

    error, call = await failed(protocol, (status, headers, short), tmp_path, stream=True)

    assert str(error) == f"the stream of {protocol.provider} ended before its answer did"
    assert error.transient
    assert call.error == "ModelError"


ERRORS_IN_STREAMS = {
    CHAT: b'data: {"error": {"message": "overloaded", "type": "server_error"}}\n\n',
    RESPONSES: b'event: error\ndata: {"type": "error", "error": {"message": "overloaded", "code": "x"}}\n\n',
    ANTHROPIC: b'event: error\ndata: {"type": "error", "error": {"type": "x", "message": "overloaded"}}\n\n',
    GEMINI: b'data: {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}\n\n',
    OLLAMA: b'{"error": "overloaded"}\n',
}


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_an_error_in_the_middle_of_a_stream_is_said_in_the_servers_words(
    protocol: Protocol, tmp_path: Path
) -> None:
    status, headers, body = protocol.streamed("Three", None)
    separator = b"\n" if protocol is OLLAMA else b"\n\n"
    begun = b"" if protocol is GEMINI else body.split(separator)[0] + separator

    error, _ = await failed(protocol, (status, headers, begun + ERRORS_IN_STREAMS[protocol]), tmp_path, stream=True)

    assert str(error).startswith(f"{protocol.provider} ")
    assert str(error).endswith(": overloaded")
    assert error.transient


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_an_empty_answer_is_a_failed_turn(protocol: Protocol, tmp_path: Path) -> None:
    with model_server(lambda _: protocol.empty) as server:
        models = models_of(protocol, server, tmp_path)
        outcome, kept = await Chat(build_package(load(tmp_path / "Small"), models, THREADS)).run()
        await models.close()

    assert (outcome.kind, outcome.transient) == (OutcomeKind.MODEL_ERROR, True)
    assert kept.turns == []
    assert len(kept.calls) == 1


@pytest.mark.parametrize(
    ("protocol", "replace"),
    [
        (CHAT, (b'"finish_reason": "stop"', b'"finish_reason": "content_filter"')),
        (ANTHROPIC, (b'"end_turn"', b'"refusal"')),
        (GEMINI, (b'"STOP"', b'"SAFETY"')),
    ],
    ids=lambda each: str(each) if isinstance(each, Protocol) else "",
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_refused_content_is_not_asked_again_and_is_paid_for(
    protocol: Protocol, replace: tuple[bytes, bytes], stream: bool, tmp_path: Path
) -> None:
    status, headers, body = (protocol.streamed if stream else protocol.answer)("Well,", None)
    assert replace[0] in body

    error, call = await failed(protocol, (status, headers, body.replace(*replace)), tmp_path, stream=stream)

    assert str(error).startswith(f"{protocol.provider} refused to answer: ")
    assert not error.transient
    assert (call.tokens, call.status) == (protocol.tokens, "reported")


async def test_a_stream_without_usage_is_missing_rather_than_free(tmp_path: Path) -> None:
    status, headers, body = CHAT.streamed("Three", None)
    parts = [part for part in body.split(b"\n\n") if b"prompt_tokens" not in part]

    async with desk(CHAT, lambda _: (status, headers, b"\n\n".join(parts)), tmp_path, stream=True) as (at, _):
        reply = await at.ask()

    assert reply.body == "Three"
    assert [(call.status, call.ok, call.tokens) for call in at.calls] == [("missing", True, Tokens())]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_nobody_there_is_worth_another_attempt(protocol: Protocol, tmp_path: Path) -> None:
    with model_server(lambda _: CHAT.empty) as gone:
        pass
    models = models_of(protocol, gone, tmp_path)
    at = Desk(models)

    with pytest.raises(ModelError, match=f"the connection to {protocol.provider} failed: Connect") as caught:
        await at.ask()
    await models.close()

    assert caught.value.transient


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_silence_ends_in_time(protocol: Protocol, tmp_path: Path) -> None:
    enough = threading.Event()

    def silent(_: int) -> Answer:
        enough.wait(10)
        return protocol.empty

    async with desk(protocol, silent, tmp_path, timeout="0.3s") as (at, _):
        with pytest.raises(ModelError, match=r"in time|within") as caught:
            await at.ask()
        enough.set()

    assert caught.value.transient


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_a_closed_model_leaves_no_socket(protocol: Protocol, tmp_path: Path) -> None:
    process = psutil.Process()
    with model_server(lambda _: protocol.answer("Three", None), keep_alive=True) as server:
        port = int(server.root.rpartition(":")[2])
        models = models_of(protocol, server, tmp_path)
        at = Desk(models)
        for _ in range(3):
            await at.ask()

        def open_sockets() -> int:
            others_ends = [each.raddr for each in process.net_connections("tcp")]
            return len([address for address in others_ends if getattr(address, "port", None) == port])

        assert open_sockets() > 0
        await models.close()
        assert open_sockets() == 0
