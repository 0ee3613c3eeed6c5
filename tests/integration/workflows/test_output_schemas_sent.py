"""Output schemas as an OpenAI server gets them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.integration.model_server import Answer, completion, model_server
from tests.unit.workflows.chat.agents.test_output_schemas import breaches
from tests.unit.workflows.chat.model_call.test_structured_replies import GOOD, structured_chat
from tests.unit.workflows.chats import THREADS, Chat
from workflows.chat.agents.built_packages import build_package
from workflows.chat.providers.model_registry import ModelRegistry
from workflows.models_file import OpenAIModel
from workflows.outcome import OutcomeKind

pytestmark = pytest.mark.integration

NULLS: Mapping[str, Mapping[str, Any]] = {"Verdict": {"note": None}, "Tree": {}}  # strict: every field is there


@pytest.mark.parametrize(("model", "text"), [("Verdict", GOOD), ("Tree", '{"v": 1, "kids": []}')])
async def test_a_strict_schema_goes_with_the_request(tmp_path: Path, model: str, text: str) -> None:
    requests = await requests_of(tmp_path, model, text)

    sent = requests[0]["response_format"]
    assert (sent["type"], sent["json_schema"]["name"], sent["json_schema"]["strict"]) == ("json_schema", model, True)
    Draft202012Validator(sent["json_schema"]["schema"]).validate({**NULLS[model], **json.loads(text)})
    assert breaches(sent["json_schema"]["schema"]) == []
    assert "response_format" not in requests[-1]  # of B, which has no model


async def test_a_schema_that_would_be_refused_stands_in_the_prompt(tmp_path: Path) -> None:
    first, second, last = await requests_of(tmp_path, "Open", "What facts?", '{"facts": {"a": 1}}')

    assert not [each for each in (first, second, last) if "response_format" in each]
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "user"]
    assert '"facts"' in first["messages"][0]["content"]
    assert second["messages"][-1]["content"].startswith("Your answer does not fit Open: Invalid JSON")
    assert '"facts"' not in last["messages"][0]["content"]  # B's request has no schema


async def requests_of(folder: Path, model: str, *texts: str) -> list[Mapping[str, Any]]:
    answers: list[Answer] = [completion(each) for each in (*texts, "Well.")]
    with model_server(lambda number: answers[number]) as server:
        models = ModelRegistry({"default": OpenAIModel(provider="openai", model="stub", base_url=server.url)}, str)
        scripted = structured_chat(folder / "p", GOOD, model=model)
        outcome, _ = await Chat(build_package(scripted.built.package, models, THREADS)).run()
        await models.close()
    assert outcome.kind is OutcomeKind.COMPLETED, outcome
    return list(server.requests)
