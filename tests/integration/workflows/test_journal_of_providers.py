"""A turn that waited for a person ends the same with each provider's real library."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.integration.model_server import model_server
from tests.integration.workflows.desk import models_of
from tests.integration.workflows.protocols import PROTOCOLS, ModelProtocol
from tests.unit.workflows.chats import THREADS, Chat
from tests.unit.workflows.packages import load, write_tool
from workflows.chat.agents.built_packages import build_package
from workflows.outcome import OutcomeKind

pytestmark = pytest.mark.integration

ASK_TOOL = """
from workflows.tools import use_ui_tool

async def ask(amount: int) -> dict:
    return await use_ui_tool("Refund", {"amount": amount})
"""
ANSWER = {"verdict": "yes"}
MADE_UP = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # where a provider gives calls no ids, AG2 does


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
async def test_the_next_request_is_that_of_a_turn_that_never_waited(
    protocol: ModelProtocol, stream: bool, tmp_path: Path
) -> None:
    waited = await requests_of(protocol, tmp_path / "waits", stream=stream, waits=True)
    at_once = await requests_of(protocol, tmp_path / "at_once", stream=stream, waits=False)

    assert len(waited) == 2
    assert waited == at_once


async def requests_of(protocol: ModelProtocol, folder: Path, *, stream: bool, waits: bool) -> list[Any]:
    answer = protocol.streamed if stream else protocol.answer
    answers = [answer(None, ("ask", {"amount": 12})), answer("refunded", None)]
    write_tool(folder / "Small", "ask.py", ASK_TOOL)
    tools = {"tools": [{"agent": "A", "file": "ask.py", "function": "ask"}]}
    with model_server(lambda number: answers[number]) as server:
        models = models_of(protocol, server, folder, stream=stream)
        package = load(folder / "Small", agents={"agents": [{"name": "A", "system_message": "Refund."}]}, tools=tools)
        chat = Chat(build_package(package, models, THREADS), ui_responses={} if waits else {"Refund": ANSWER})
        outcome, kept = await chat.run()
        if waits:
            assert outcome.kind is OutcomeKind.NEEDS_HUMAN
            chat.give(chat.questions()[0], ANSWER)
            outcome, kept = await chat.run(kept)
        await models.close()
    assert (outcome.kind, [turn.text for turn in kept.turns]) == (OutcomeKind.COMPLETED, ["refunded"])
    return [json.loads(MADE_UP.sub("id", json.dumps(request))) for request in server.requests]
