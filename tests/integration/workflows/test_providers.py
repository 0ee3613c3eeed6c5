"""Providers through their real libraries: chats with servers of their protocols."""

import asyncio
import json
from pathlib import Path
from typing import Any

import psutil
import pytest
from ag2.response import ResponseSchema
from pydantic import BaseModel

from accounting.usage import Tokens
from tests.integration.model_server import Answer, ModelServer, model_server
from tests.integration.workflows.desk import KEY, ModelDesk, desk, models_of
from tests.integration.workflows.protocols import (
    BEDROCK,
    CHAT,
    CHAT_USAGE,
    MISTRAL,
    PROTOCOLS,
    RESPONSES,
    XAI,
    ModelProtocol,
    aws_event,
    response,
    sse,
)
from tests.unit.workflows.chats import THREADS, Chat
from tests.unit.workflows.packages import load, write_tool
from workflows.chat.agents.built_packages import build_package
from workflows.outcome import OutcomeKind

pytestmark = pytest.mark.integration

READ_TOOL = """
def read(region: str, *, context_variables=None) -> dict:
    return {"orders": 3, "region": region}
"""


@pytest.mark.design("D5-28")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_a_chat_with_tools_reaches_the_server_and_its_usage_the_ledger(
    protocol: ModelProtocol, stream: bool, tmp_path: Path
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


@pytest.mark.design("D4-79")
@pytest.mark.parametrize("sent", [True, None])
@pytest.mark.parametrize("protocol", [CHAT, RESPONSES, MISTRAL, XAI], ids=str)
async def test_each_run_has_a_prompt_cache_key_of_its_own(
    protocol: ModelProtocol, sent: bool | None, tmp_path: Path
) -> None:
    seeds = [11, 22]

    with model_server(lambda _: protocol.answer("done", None)) as server:
        models = models_of(protocol, server, tmp_path, prompt_cache_key=sent)
        made = build_package(load(tmp_path / "Small"), models, THREADS)
        await asyncio.gather(*(Chat(made, fixed={"cache_seed": seed}, opening=str(seed)).run() for seed in seeds))
        await models.close()

    keys = {
        seed: request.get("prompt_cache_key") or headers.get("x-grok-conv-id")
        for request, headers in zip(server.requests, server.headers, strict=True)
        for seed in seeds
        if str(seed) in json.dumps(request.get("messages") or request["input"])
    }
    # A server at a base_url may refuse unknown fields.
    assert keys == ({11: "11", 22: "22"} if sent else {11: None, 22: None})


class ConnectionCounter(BaseModel):
    orders: int


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_an_output_model_reaches_the_server_as_a_schema(protocol: ModelProtocol, tmp_path: Path) -> None:
    answer = protocol.answer('{"orders": 3}', None)

    async with desk(protocol, lambda _: answer, tmp_path) as (at, server):
        reply = await at.ask(response_schema=ResponseSchema(ConnectionCounter))

        assert await reply.content() == ConnectionCounter(orders=3)
    assert protocol.schema(server.requests[0])["properties"]["orders"]["type"].lower() == "integer"


async def test_an_answer_without_usage_is_estimated_rather_than_free(tmp_path: Path) -> None:
    status, headers, body = CHAT.streamed("Three", None)
    parts = [part for part in body.split(b"\n\n") if b"prompt_tokens" not in part]

    async with desk(CHAT, lambda _: (status, headers, b"\n\n".join(parts)), tmp_path, stream=True) as (at, _):
        reply = await at.ask()

    assert reply.body == "Three"
    assert [(call.status, call.ok, call.tokens) for call in at.calls] == [
        ("estimated", True, Tokens(input=5, output=2))
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_a_closed_model_leaves_no_socket(protocol: ModelProtocol, tmp_path: Path) -> None:
    with model_server(lambda _: protocol.answer("Three", None), keep_alive=True) as server:
        models = models_of(protocol, server, tmp_path)
        at = ModelDesk(models)
        for _ in range(3):
            await at.ask()

        assert open_sockets(server)
        await models.close()
        assert not open_sockets(server)


def open_sockets(server: ModelServer) -> list[Any]:
    port = int(server.root.rpartition(":")[2])
    others_ends = [each.raddr for each in psutil.Process().net_connections("tcp")]
    return [address for address in others_ends if getattr(address, "port", None) == port]


async def test_an_empty_usage_is_none(tmp_path: Path) -> None:
    """For example a total alone, or a word: the call is not taken for free."""
    status, headers, body = CHAT.answer("Three", None)
    said = json.loads(body)
    said["usage"] = {"prompt_tokens": None, "completion_tokens": "many", "total_tokens": 120}

    async with desk(CHAT, lambda _: (status, headers, json.dumps(said).encode()), tmp_path) as (at, _):
        await at.ask()

    assert [(call.status, call.tokens.output) for call in at.calls] == [("estimated", 2)]


@pytest.mark.parametrize(
    "details", [{}, {"prompt_tokens_details": None, "input_tokens_details": [], "total_tokens": 1}]
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", [CHAT, RESPONSES], ids=str)
async def test_a_server_that_leaves_out_openais_details_has_answered_and_is_paid(
    protocol: ModelProtocol, stream: bool, details: dict[str, Any], tmp_path: Path
) -> None:
    told = CHAT_USAGE if protocol is CHAT else response(None, None)["usage"]
    counts = {name: told[name] for name in told if name.startswith(("prompt", "completion", "input", "output"))}
    bare = {name: count for name, count in counts.items() if isinstance(count, int)} | details
    status, headers, body = (protocol.streamed if stream else protocol.answer)("Three", None)
    assert json.dumps(told).encode() in body
    answer = status, headers, body.replace(json.dumps(told).encode(), json.dumps(bare).encode())

    async with desk(protocol, lambda _: answer, tmp_path, stream=stream) as (at, _):
        reply = await at.ask()

    assert reply.body == "Three"
    assert [(call.status, call.tokens) for call in at.calls] == [("reported", Tokens(input=100, output=20))]


@pytest.mark.parametrize("status", ["incomplete", "failed"])
async def test_a_streamed_response_that_was_cut_short_is_paid_for(status: str, tmp_path: Path) -> None:
    whole = {**response("Three", None), "status": status}
    delta: dict[str, Any] = {
        "type": "response.output_text.delta",
        "delta": "Three",
        "output_index": 0,
        "item_id": "msg_1",
    }
    end: dict[str, Any] = {"type": f"response.{status}", "response": whole}
    answer = sse(*({**event, "sequence_number": at} for at, event in enumerate((delta, end))), named=True)

    async with desk(RESPONSES, lambda _: answer, tmp_path, stream=True) as (at, _):
        outcome = await at.answer_or_error()

    assert [(call.status, call.tokens) for call in at.calls] == [("reported", RESPONSES.tokens)]
    assert (str(outcome) if status == "failed" else outcome.body) == {
        "failed": "the stream of openai_responses ended before the answer was complete",
        "incomplete": "Three",
    }[status]


async def test_bedrock_is_asked_with_the_key_of_the_models_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "another")

    async with desk(BEDROCK, lambda _: BEDROCK.answer("Three", None), tmp_path) as (at, server):
        await at.ask()

    assert [BEDROCK.key(headers) for headers in server.headers] == [KEY]


async def test_without_a_key_bedrock_uses_the_aws_identity_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIACANARY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")

    async with desk(BEDROCK, lambda _: BEDROCK.answer("Three", None), tmp_path, api_key=None) as (at, server):
        await at.ask()

    [headers] = server.headers
    assert headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIACANARY/")
    assert "/eu-central-1/bedrock/aws4_request" in headers["authorization"]


async def test_a_machine_without_an_aws_identity_gets_an_explained_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))

    async with desk(BEDROCK, lambda _: BEDROCK.answer("Three", None), tmp_path, api_key=None) as (at, server):
        error = await at.answer_or_error()

    assert str(error) == "bedrock cannot be called: there is no api_key and no AWS identity here"
    assert not error.transient
    assert server.requests == []


async def test_bedrock_calls_share_connections_and_an_abandoned_stream_none(tmp_path: Path) -> None:
    begun = aws_event("messageStart", {"role": "assistant"})
    kind = {"content-type": "application/vnd.amazon.eventstream"}
    halves: dict[int, Answer] = {2: (200, {**kind, "content-length": "9999"}, begun)}

    with model_server(lambda at: halves.get(at) or BEDROCK.streamed("Three", None), keep_alive=True) as server:
        models = models_of(BEDROCK, server, tmp_path, stream=True, timeout="2s")
        at = ModelDesk(models)
        for _ in range(2):
            await at.ask()
        shared = len(open_sockets(server))
        error = await at.answer_or_error()
        left = len(open_sockets(server))
        await models.close()

    assert (shared, left) == (1, 0)
    assert error.transient
