"""Traces of real runs at a real OTLP receiver."""

import json
import os
from dataclasses import replace
from typing import Any

import pytest

from tests.integration.model_server import ModelServer, call, completion, model_server, usage
from tests.integration.stage import Stage, relay, wait_until
from tests.integration.trace_receiver import SeenSpan, TraceReceiver, trace_receiver
from tests.integration.triggers.gateway_server import serving
from triggers.role_context import open_role_context

pytestmark = pytest.mark.integration

CALLERS = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SECRET_WORDS = ("sugar-prompt", "pepper-payload", "salt-arguments", "ginger-result", "thyme-error")
TOOLS = """
import logging
from opentelemetry.propagate import inject

def weigh(spice: str) -> str:
    headers = {}
    inject(headers)
    logging.getLogger("a.package").warning("weighed", extra={"headers": headers})
    return "ginger-result"

def spill() -> str:
    raise ValueError("thyme-error")
"""


def kitchen() -> dict[str, Any]:
    package = relay("Kitchen", ["Cook", "Waiter"])
    package["agents"]["agents"][0]["system_message"] = "You know the sugar-prompt."
    tools = [{"agent": "Cook", "file": "spices.py", "function": name} for name in ("weigh", "spill")]
    hook = {"name": "order", "type": "webhook", "apps": ["acme"], "verify": {"scheme": "none"}, "input": {"all": "=@"}}
    return {**package, "tools": {"tools": tools}, "tools/spices.py": TOOLS, "triggers": {"triggers": [hook]}}


def trace_environment(receiver: TraceReceiver, **environ: str) -> dict[str, Any]:
    soon = {"OTEL_BSP_SCHEDULE_DELAY": "100", **environ}
    return {"otlp_endpoint": receiver.url, "environ": {**os.environ, **soon}}


async def wait_for_span(receiver: TraceReceiver, name: str, count: int = 1) -> list[SeenSpan]:
    async def all_there() -> list[SeenSpan]:
        return found if len(found := receiver.spans_named(name)) >= count else []

    found: list[SeenSpan] = await wait_until(f"{count} spans {name} have come", all_there)
    return found


def cooking(number: int) -> Any:
    tokens = usage(100, 20, cached=40, cache_write=10, reasoning=5)
    if number == 0:
        calls = [call("weigh", '{"spice": "salt-arguments"}'), {**call("spill", "{}"), "id": "call_2"}]
        return completion(None, tool_calls=calls, usage=tokens)
    return completion("served", usage=tokens)


async def run_order(stage: Stage, receiver: TraceReceiver, server: ModelServer) -> str:
    stage.package("Kitchen", kitchen())
    stage.models({"default": {"provider": "openai", "model": "stub", "base_url": server.url}})
    await stage.start_worker(**trace_environment(receiver), log_format="json")
    settings = replace(stage.settings, **trace_environment(receiver))
    async with open_role_context(settings, role="gateway") as ground, serving(ground) as gateway:
        order = {"dish": "pepper-payload"}
        answer = await gateway.client.post(
            "/hooks/acme/Kitchen/order", json=order, headers={"traceparent": CALLERS, "baggage": "a=pepper-payload"}
        )
    assert answer.status_code == 202, answer.text
    run_id: str = answer.json()["run_id"]
    assert (await stage.wait_for_end(run_id))["state"] == "succeeded"
    return run_id


async def test_a_run_is_one_tree_from_its_caller_to_its_model_and_tools(stage: Stage) -> None:
    with trace_receiver() as receiver, model_server(cooking) as server:
        run_id = await run_order(stage, receiver, server)
        [run] = await wait_for_span(receiver, "invoke_workflow Kitchen")
        header_of_model = server.headers[0].get("traceparent")

    assert_one_tree(receiver, run)
    assert_run_attributes(receiver, run, run_id)
    assert_turn_attributes(receiver, run)
    everything = b"".join(receiver.raw)
    assert [words for words in SECRET_WORDS if words.encode() in everything] == []
    assert header_of_model is None
    assert_log_links_to_span(stage, receiver.only_span("execute_tool weigh"), run_id)


def assert_one_tree(receiver: TraceReceiver, run: SeenSpan) -> None:
    trigger = receiver.only_span("trigger Kitchen/order")
    cook, waiter = receiver.only_span("invoke_agent Cook"), receiver.only_span("invoke_agent Waiter")
    tools = [receiver.only_span(f"execute_tool {name}") for name in ("weigh", "spill")]

    assert {span.trace_id for span in receiver.spans} == {CALLERS.split("-")[1]}
    assert len(receiver.spans) == 9  # no duplicates, no other spans
    assert (trigger.parent_id, trigger.kind, trigger.service) == ("00f067aa0ba902b7", "server", "unattended-gateway")
    assert (run.parent_id, run.kind, run.service) == (trigger.span_id, "internal", "unattended-worker")
    assert [turn.parent_id for turn in (cook, waiter)] == [run.span_id, run.span_id]
    assert [(chat.parent_id, chat.kind) for chat in receiver.spans_named("chat stub")] == [
        *[(cook.span_id, "client")] * 2,
        (waiter.span_id, "client"),
    ]
    assert {each.parent_id for each in tools} == {cook.span_id}


def assert_run_attributes(receiver: TraceReceiver, run: SeenSpan, run_id: str) -> None:
    of_trigger = receiver.only_span("trigger Kitchen/order").attributes
    told = ("app_id", "outcome", "state", "attempt")

    assert {run.attributes[name] for name in ("unattended.run_id", "gen_ai.conversation.id")} == {run_id}
    assert [run.attributes[f"unattended.{name}"] for name in told] == ["acme", "completed", "succeeded", 1]
    assert (of_trigger["unattended.trigger.type"], of_trigger["unattended.run_id"]) == ("webhook", run_id)


def assert_turn_attributes(receiver: TraceReceiver, run: SeenSpan) -> None:
    cook, chat = receiver.only_span("invoke_agent Cook"), receiver.spans_named("chat stub")[0].attributes
    weigh, spill = receiver.only_span("execute_tool weigh"), receiver.only_span("execute_tool spill")

    assert (cook.attributes["unattended.turn"], cook.attributes["unattended.handoff"]) == (1, "Waiter")
    assert {name: value for name, value in chat.items() if "usage" in name} == {
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 40,
        "gen_ai.usage.cache_write.input_tokens": 10,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "unattended.usage": "reported",
    }
    models = [chat[f"gen_ai.{name}"] for name in ("provider.name", "request.model", "response.model")]
    assert models == ["openai", "stub", "stub-2026-01-01"]
    assert (spill.failed, spill.attributes["error.type"]) == (True, "ValueError")
    assert [(span.failed, span.attributes.get("error.type")) for span in (weigh, cook, run)] == [(False, None)] * 3


def assert_log_links_to_span(stage: Stage, weigh: SeenSpan, run_id: str) -> None:
    lines = [json.loads(line) for line in stage.log().splitlines() if line.startswith("{")]
    [line] = [each for each in lines if each["event"] == "weighed"]

    told = ("run_id", "app_id", "workflow", "attempt")
    assert [line[name] for name in told] == [run_id, "acme", "Kitchen", 1]
    assert (line["trace_id"], line["span_id"]) == (weigh.trace_id, weigh.span_id)
    assert line["headers"] == {"traceparent": f"00-{weigh.trace_id}-{weigh.span_id}-01"}
    about_run = [line for line in lines if line.get("run_id") == run_id]
    assert {"run_claimed", "turn_committed", "tool_failed", "run_finished"} <= {line["event"] for line in about_run}
    assert {(line["trace_id"], line["attempt"]) for line in about_run} == {(weigh.trace_id, 1)}


async def test_a_takeover_continues_the_trace_and_links_to_the_killed_owner(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A", "B"]))
    stage.answers({"A": [{"text": "first"}], "B": [{"text": "late", "delay_s": 60}]})
    with trace_receiver() as receiver:
        changes = trace_environment(receiver)
        killed = await stage.start_worker(**changes)
        run_id = (await stage.accept("Relay")).run_id
        [of_a] = await wait_for_span(receiver, "invoke_agent A")
        killed.kill()
        stage.answers({"B": [{"text": "second"}]})
        late = trace_environment(receiver, OTEL_BSP_SCHEDULE_DELAY="600000")  # the worker sends the spans when it stops
        stopped = await stage.start_worker(**late)

        run = await stage.reconcile_until_end(run_id)
        stopped.terminate()
        assert await stopped.wait() == 0

    second = receiver.only_span("invoke_workflow Relay")
    assert (run["state"], await stage.agents_of(run_id)) == ("succeeded", ["A", "B"])
    assert second.trace_id == of_a.trace_id
    assert second.links == ((of_a.trace_id, of_a.parent_id, "resumes"),)
    assert receiver.only_span("invoke_agent B").parent_id == second.span_id
    assert second.span_id != of_a.parent_id


async def test_an_endpoint_that_is_away_is_logged_once_and_delays_no_run(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A", "B"]))
    with trace_receiver() as receiver:
        away = trace_environment(receiver, OTEL_EXPORTER_OTLP_TIMEOUT="1")
    worker = await stage.start_worker(**away)
    runs = [await stage.wait_for_end((await stage.accept("Relay")).run_id) for _ in range(3)]

    async def is_said() -> bool:
        return "traces_not_exported" in stage.log()

    await wait_until("the log says that traces are lost", is_said)
    worker.terminate()
    assert await worker.wait() == 0
    assert [run["state"] for run in runs] == ["succeeded"] * 3
    assert stage.log().count("traces_not_exported") == 1
    assert "opentelemetry" not in stage.log()
