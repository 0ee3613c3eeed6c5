"""Runs against a real HTTP model server: the ledger matches the served calls."""

import json

import pytest

from tests.integration.model_server import Answer, call, completion, model_server, refusal, usage
from tests.integration.stage import Stage, relay

pytestmark = pytest.mark.integration

READ_TOOL = """
from typing import Annotated

def read(region: Annotated[str, "eu or us"], *, context_variables=None):
    context_variables.set("region_read", region)
    return {"orders": 3}
"""


def reader_package() -> dict[str, object]:
    package = relay("Reader", ["Reader"])
    package["tools"] = {"tools": [{"agent": "Reader", "file": "read.py", "function": "read"}]}
    package["tools/read.py"] = READ_TOOL
    package["context_variables"] = {
        "definitions": {"region_read": {"type": "string", "source": {"type": "state", "default": "none yet"}}},
        "agents": {"Reader": {"variables": ["app_id", "region_read"]}},
    }
    return package


async def test_tool_calls_prompt_and_usage_reach_server_and_ledger(stage: Stage) -> None:
    stage.package("Reader", reader_package())
    answers: list[Answer] = [
        completion(None, tool_calls=[call("read", '{"region": "eu"}')], usage=usage(100, 10, cached=64)),
        completion("3 orders", usage=usage(150, 20, reasoning=12)),
    ]

    with model_server(lambda number: answers[number]) as server:
        stage.models({"default": {"provider": "openai", "model": "stub", "base_url": server.url}})
        await stage.start_worker()
        run = await stage.wait_for_end((await stage.accept("Reader")).run_id)

    assert (run["state"], run["context"]["region_read"]) == ("succeeded", "eu")
    first, second = server.requests
    assert [tool["function"]["name"] for tool in first["tools"]] == ["read"]
    assert set(first["tools"][0]["function"]["parameters"]["properties"]) == {"region"}
    system = first["messages"][0]["content"]
    assert "You are Reader." in system
    assert "app_id: acme" in system
    assert "region_read: none yet" in system
    assert json.loads(second["messages"][-1]["content"]) == {"orders": 3}
    rows = await stage.usage_rows(run["_id"])
    fields = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens", "model", "status")
    assert [[row[name] for name in fields] for row in rows] == [
        [100, 64, 10, 0, "stub", "reported"],
        [150, 0, 20, 12, "stub", "reported"],
    ]


async def test_malformed_arguments_are_answered_and_the_run_goes_on(stage: Stage) -> None:
    stage.package("Reader", reader_package())
    answers: list[Answer] = [
        completion(None, tool_calls=[call("read", '{"region": "eu"')], usage=usage(10, 1)),
        completion("never mind", usage=usage(10, 1)),
    ]

    with model_server(lambda number: answers[number]) as server:
        stage.models({"default": {"provider": "openai", "model": "stub", "base_url": server.url}})
        await stage.start_worker()
        run = await stage.wait_for_end((await stage.accept("Reader")).run_id)

    assert run["state"] == "succeeded"
    assert "do not fit" in server.requests[1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("answer", "state", "kind"),
    [
        (refusal(400), "failed", "model_error"),
        (refusal(500), "parked", "model_error"),
        ((200, {"content-type": "application/json"}, b"<html>garbage"), "parked", "model_error"),
        (completion(None, usage=usage(5, 0)), "parked", "model_error"),
    ],
    ids=["bad request", "server error", "garbage", "empty answer"],
)
async def test_a_server_that_does_not_help_ends_the_run_with_a_reason(
    stage: Stage, answer: Answer, state: str, kind: str
) -> None:
    stage.package("Relay", relay("Relay", ["A"]))

    with model_server(lambda _: answer) as server:
        stage.models({"default": {"provider": "openai", "model": "stub", "base_url": server.url}})
        await stage.start_worker(max_attempts=1)
        run = await stage.wait_for_end((await stage.accept("Relay")).run_id)

    assert (run["state"], run["outcome"]["kind"]) == (state, kind)
    assert run["outcome"]["error"]
    rows = await stage.usage_rows(run["_id"])
    assert len(rows) == 1
    assert run["usage"]["calls"] == 1


async def test_a_missing_key_is_reported_in_one_line(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A"]))
    stage.models({"default": {"provider": "openai", "model": "stub", "api_key": "env:NO_SUCH_KEY_IS_SET"}})
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Relay")).run_id)

    assert run["state"] == "failed"
    assert "NO_SUCH_KEY_IS_SET" in run["outcome"]["reason"]
    assert "Traceback" not in stage.log()
