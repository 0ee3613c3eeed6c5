"""Transfers and the manager of an AutoPattern through the providers' real libraries."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.model_server import Answer, ModelServer, model_server
from tests.integration.workflows.desk import models_of
from tests.integration.workflows.protocols import CHAT, PROTOCOLS, Call, ModelProtocol
from tests.unit.workflows.chats import THREADS, Chat, ChatRecorder
from tests.unit.workflows.packages import load, rule, write_tool
from workflows.chat.agents.built_packages import build_package
from workflows.outcome import Outcome, OutcomeKind

pytestmark = pytest.mark.integration

READ_TOOL = "def read(region: str) -> dict:\n    return {'orders': 3}\n"
TO_B = {"handoff_type": "condition", "condition_type": "string_llm", "condition": "the numbers are read"}


async def run_chat(
    protocol: ModelProtocol, answers: list[Answer], folder: Path, *, stream: bool = False, **files: Any
) -> tuple[Outcome, ChatRecorder, ModelServer]:
    write_tool(folder / "Small", "read.py", READ_TOOL)
    with model_server(lambda number: answers[number]) as server:
        models = models_of(protocol, server, folder, stream=stream)
        outcome, kept = await Chat(build_package(load(folder / "Small", **files), models, THREADS)).run()
        await models.close()
    return outcome, kept, server


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_a_transfer_is_offered_taken_and_leaves_a_history_that_can_be_sent(
    protocol: ModelProtocol, stream: bool, tmp_path: Path
) -> None:
    answer = protocol.streamed if stream else protocol.answer
    read: Call = ("read", {"region": "eu"})
    over: Call = ("transfer_to_B", {})
    answers = [answer(None, read), answer(None, over), answer("B says", None), answer("A says", None)]
    routing = [rule("A", "B", **TO_B), rule("A", "terminate"), rule("B", "A")]

    outcome, kept, server = await run_chat(
        protocol,
        answers,
        tmp_path,
        stream=stream,
        tools={"tools": [{"agent": "A", "file": "read.py", "function": "read"}]},
        handoffs={"handoff_rules": routing},
    )

    assert outcome.kind is OutcomeKind.COMPLETED, outcome
    assert [(turn.agent, turn.text, turn.handoff) for turn in kept.turns] == [
        ("A", "", "B"),
        ("B", "B says", "A"),
        ("A", "A says", "terminate"),
    ]
    assert [sorted(protocol.tools(request)) for request in server.requests] == [
        ["read", "transfer_to_B"],
        ["read", "transfer_to_B"],
        [],
        ["read", "transfer_to_B"],
    ]
    history = {key: value for key, value in server.requests[3].items() if not key.startswith("tool")}
    assert "orders" in json.dumps(history)
    assert "transfer_to_B" not in json.dumps(history)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_the_manager_is_held_to_the_names(protocol: ModelProtocol, tmp_path: Path) -> None:
    texts = ["A says", '{"next": "B"}', "B says", '{"next": "terminate"}']
    orchestrator = {"workflow_name": "Small", "initial_agent": "A", "orchestration_pattern": "AutoPattern"}
    answers = [protocol.answer(text, None) for text in texts]

    outcome, kept, server = await run_chat(protocol, answers, tmp_path, orchestrator=orchestrator)

    assert (outcome.kind, kept.speakers) == (OutcomeKind.COMPLETED, ["A", "B"])
    for request in (server.requests[1], server.requests[3]):
        assert protocol.schema(request)["properties"]["next"]["enum"] == ["A", "B", "terminate"]


async def test_a_server_that_takes_no_schemas_is_asked_in_words(tmp_path: Path) -> None:
    refused = (400, {"content-type": "application/json"}, b'{"error": {"message": "no response_format here"}}')
    orchestrator = {"workflow_name": "Small", "initial_agent": "A", "orchestration_pattern": "AutoPattern"}
    answers = [CHAT.answer("A says", None), refused, CHAT.answer("It is done: terminate", None)]

    outcome, kept, server = await run_chat(CHAT, answers, tmp_path, orchestrator=orchestrator)

    assert (outcome.kind, kept.speakers) == (OutcomeKind.COMPLETED, ["A"])
    assert ["response_format" in request for request in server.requests] == [False, True, False]
    assert [call.ok for call in kept.calls] == [True, False, True]
