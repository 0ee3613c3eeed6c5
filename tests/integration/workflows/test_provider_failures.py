"""Providers through their real libraries: servers that refuse, break off, are away."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.integration.model_server import Answer, model_server
from tests.integration.workflows.desk import KEY, ModelDesk, desk, failed_call, models_of
from tests.integration.workflows.protocols import (
    ANTHROPIC,
    BEDROCK,
    CHAT,
    GEMINI,
    MISTRAL,
    OLLAMA,
    PROTOCOLS,
    RESPONSES,
    XAI,
    ModelProtocol,
    aws_event,
)
from tests.unit.workflows.chats import THREADS, Chat
from tests.unit.workflows.packages import load
from workflows.chat.agents.built_packages import build_package
from workflows.chat.chat_errors import ModelError
from workflows.outcome import OutcomeKind

pytestmark = pytest.mark.integration


def refusal(status: int, body: Any, **headers: str) -> Answer:
    return status, {"content-type": "application/json", **headers}, json.dumps(body).encode()


WORDS = "model 'm' not found,\n try another"
REFUSALS = {
    "openai": {"error": {"message": WORDS, "type": "invalid_request_error", "code": None}},
    "openai_responses": {"error": {"message": WORDS, "type": "invalid_request_error", "code": None}},
    "anthropic": {"type": "error", "error": {"type": "not_found_error", "message": WORDS}},
    "gemini": {"error": {"code": 404, "message": WORDS, "status": "NOT_FOUND"}},
    "bedrock": {"message": WORDS},
    "mistral": {"object": "error", "message": WORDS, "type": "invalid_model", "param": None, "code": "1500"},
    "xai": {"code": "not-found", "error": WORDS},
    "ollama": {"error": WORDS},
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_a_refusal_has_provider_status_and_the_servers_words(
    protocol: ModelProtocol, stream: bool, tmp_path: Path
) -> None:
    answer = refusal(404, REFUSALS[protocol.provider])

    error, call = await failed_call(protocol, answer, tmp_path, stream=stream)

    assert str(error) == f"{protocol.provider} answered 404: model 'm' not found, try another"
    assert not error.transient
    assert call.status == "missing"


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_a_key_that_the_server_repeats_is_not_shown(protocol: ModelProtocol, tmp_path: Path) -> None:
    words = f"Wrong key: {KEY}."
    error, _ = await failed_call(protocol, refusal(401, {"error": {"message": words}, "message": words}), tmp_path)

    assert str(error) == f"{protocol.provider} answered 401: Wrong key: (hidden)."


@pytest.mark.parametrize("status", [408, 409, 424, 429, 500, 503, 529])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_a_status_that_passes_is_worth_another_attempt(
    protocol: ModelProtocol, status: int, tmp_path: Path
) -> None:
    error, _ = await failed_call(protocol, refusal(status, {}, **{"retry-after": "7"}), tmp_path)

    assert error.transient
    # Ollama's library drops the headers.
    assert error.retry_after_s == (None if protocol is OLLAMA else 7.0)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
@pytest.mark.parametrize(
    ("kind", "body"),
    [("text/html", b"<html>Sign in</html>"), ("application/json", b"<html>"), ("application/json", b"[]")],
)
async def test_a_page_of_a_proxy_is_worth_another_attempt(
    protocol: ModelProtocol, stream: bool, kind: str, body: bytes, tmp_path: Path
) -> None:
    async with desk(protocol, lambda _: (200, {"content-type": kind}, body), tmp_path, stream=stream) as (at, _):
        outcome = await at.answer_or_error()

    if isinstance(outcome, ModelError):
        assert outcome.transient, outcome
        assert "html" not in str(outcome)
    else:  # some libraries return an empty answer, which a turn does not accept
        assert not outcome.body


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_half_an_answer_is_none(protocol: ModelProtocol, stream: bool, tmp_path: Path) -> None:
    status, headers, body = (protocol.streamed if stream else protocol.answer)("Three hundred orders", None)
    cut = (status, {**headers, "content-length": str(len(body)), "connection": "close"}, body[: len(body) // 2])

    error, _ = await failed_call(protocol, cut, tmp_path, stream=stream)

    assert error.transient


@pytest.mark.parametrize(
    ("protocol", "parts"), [(CHAT, 2), (RESPONSES, 2), (ANTHROPIC, 4), (MISTRAL, 1), (XAI, 2), (OLLAMA, 1)], ids=str
)
async def test_a_stream_that_ends_early_in_good_order_is_no_answer(
    protocol: ModelProtocol, parts: int, tmp_path: Path
) -> None:
    status, headers, body = protocol.streamed("Three hundred orders", None)
    separator = b"\n" if protocol is OLLAMA else b"\n\n"
    short = separator.join(body.split(separator)[:parts]) + separator

    error, call = await failed_call(protocol, (status, headers, short), tmp_path, stream=True)

    assert str(error) == f"the stream of {protocol.provider} ended before the answer was complete"
    assert error.transient
    assert call.error == "ModelError"


ERRORS_IN_STREAMS = {
    CHAT: b'data: {"error": {"message": "overloaded", "type": "server_error"}}\n\n',
    RESPONSES: b'event: error\ndata: {"type": "error", "error": {"message": "overloaded", "code": "x"}}\n\n',
    ANTHROPIC: b'event: error\ndata: {"type": "error", "error": {"type": "x", "message": "overloaded"}}\n\n',
    GEMINI: b'data: {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}\n\n',
    BEDROCK: aws_event("messageStart", {"role": "assistant"})
    + aws_event("modelStreamErrorException", {"message": "overloaded"}, message="exception"),
    MISTRAL: b'data: {"object": "error", "message": "overloaded", "type": "x", "code": "3505"}\n\n',
    XAI: b'data: {"error": {"message": "overloaded", "type": "server_error"}}\n\n',
    OLLAMA: b'{"error": "overloaded"}\n',
}


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_an_error_in_the_middle_of_a_stream_has_the_servers_words(
    protocol: ModelProtocol, tmp_path: Path
) -> None:
    status, headers, body = protocol.streamed("Three", None)
    separator = b"\n" if protocol is OLLAMA else b"\n\n"
    begun = b"" if protocol in (GEMINI, BEDROCK) else body.split(separator)[0] + separator

    error, _ = await failed_call(
        protocol, (status, headers, begun + ERRORS_IN_STREAMS[protocol]), tmp_path, stream=True
    )

    assert str(error).startswith(f"{protocol.provider} ")
    assert str(error).endswith(": overloaded")
    assert error.transient


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_an_empty_answer_is_a_failed_turn(protocol: ModelProtocol, tmp_path: Path) -> None:
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
        (XAI, (b'"finish_reason": "stop"', b'"finish_reason": "content_filter"')),
    ],
    ids=lambda each: str(each) if isinstance(each, ModelProtocol) else "",
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_refused_content_is_not_asked_again_and_is_paid_for(
    protocol: ModelProtocol, replace: tuple[bytes, bytes], stream: bool, tmp_path: Path
) -> None:
    status, headers, body = (protocol.streamed if stream else protocol.answer)("Well,", None)
    assert replace[0] in body

    error, call = await failed_call(protocol, (status, headers, body.replace(*replace)), tmp_path, stream=stream)

    assert str(error).startswith(f"{protocol.provider} refused to answer: ")
    assert not error.transient
    assert (call.tokens, call.status) == (protocol.tokens, "reported")


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_an_unreachable_server_is_worth_another_attempt(protocol: ModelProtocol, tmp_path: Path) -> None:
    with model_server(lambda _: CHAT.empty) as gone:
        pass
    models = models_of(protocol, gone, tmp_path)
    at = ModelDesk(models)

    with pytest.raises(ModelError, match=f"the connection to {protocol.provider} failed: Connect") as caught:
        await at.ask()
    await models.close()

    assert caught.value.transient


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_silence_ends_in_time(protocol: ModelProtocol, tmp_path: Path) -> None:
    enough = threading.Event()

    def silent(_: int) -> Answer:
        enough.wait(10)
        return protocol.empty

    async with desk(protocol, silent, tmp_path, timeout="0.3s") as (at, _):
        with pytest.raises(ModelError, match=r"in time|within") as caught:
            await at.ask()
        enough.set()

    assert caught.value.transient
