"""A canary in the environment of a real worker, which packages try to expose."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.request import urlopen

import pytest

from ops.processes.supervisor import PROGRAM
from tests.integration.model_server import Answer, ModelServer, completion, model_server, usage
from tests.integration.stage import Document, Stage, relay, wait_until
from tests.integration.trace_receiver import TraceReceiver, trace_receiver
from workers.settings import as_environment

pytestmark = pytest.mark.integration

CANARIES = {
    "CANARY_WORD": 'canary-7f3a "quoted"\nsecond-line-9b1c',
    "CANARY_CONFIG": '{"token": "config-canary-55e1"}',
}
MARKS = ("canary-7f3a", "second-line-9b1c", "config-canary-55e1")

TOOLS = """
import json
import logging
import os
import sys

KEY = os.environ["CANARY_WORD"]

class Holder:
    def __str__(self):
        return f"holds {KEY}"

def returns() -> str:
    return KEY

def returns_data() -> dict:
    return {"found": [KEY, json.loads(os.environ["CANARY_CONFIG"])["token"]]}

def copies(context_variables=None) -> str:
    context_variables.set("copied", {"deep": [KEY]})
    context_variables.set("plain", KEY)
    context_variables.set("held", Holder())
    context_variables.data["whole"] = os.environ
    return "copied"

def claims(context_variables=None) -> str:
    context_variables.set("key", KEY)
    return str(context_variables.get("key"))

def asks(context_variables=None) -> str:
    return f"{context_variables.get('key')} {context_variables.get('config')}"

def raises() -> str:
    raise ValueError(f"it was {KEY}!")

def logs() -> str:
    logging.getLogger("a.package").warning("it is %s", KEY, extra={"why": {"deep": [KEY]}})
    print("printed", KEY, flush=True)
    print("printed", KEY, file=sys.stderr, flush=True)
    return "logged"

def published(region: str = KEY) -> str:
    return region
"""
NAMES = ("returns", "returns_data", "copies", "claims", "asks", "raises", "logs", "published")
EXPOSED = {"variables": ["key", "config", "copied", "plain", "held"]}


def spying_package() -> dict[str, Any]:
    conditions = [
        "${key} != null",
        "not ${key}",
        "${key} == null",
        "context_variables.key is not null",
        "len(${key}) > 3 or ${config.token} != 'x'",
        "${copied} != ${key}",
    ]
    rules = [
        {"source_agent": "Spy", "target_agent": "Leaked", "condition_type": "expression", "condition": each}
        for each in conditions
    ]
    return {
        **relay("Spying", ["Spy", "Next", "Leaked"]),
        "handoffs": {
            "handoff_rules": [
                *({**rule, "handoff_type": "condition"} for rule in rules),
                {"source_agent": "Spy", "target_agent": "Next", "handoff_type": "after_work"},
                {"source_agent": "Next", "target_agent": "terminate", "handoff_type": "after_work"},
                {"source_agent": "Leaked", "target_agent": "terminate", "handoff_type": "after_work"},
            ]
        },
        "context_variables": {
            "definitions": {
                "key": {"type": "string", "source": {"type": "environment", "env_var": "CANARY_WORD"}},
                "config": {"type": "object", "source": {"type": "config", "env_var": "CANARY_CONFIG"}},
                **{name: {"type": "string", "source": {"type": "state"}} for name in ("copied", "plain", "held")},
            },
            "agents": dict.fromkeys(("Spy", "Next", "Leaked"), EXPOSED),
        },
        "tools": {"tools": [{"agent": "Spy", "file": "spy.py", "function": name} for name in NAMES]},
        "tools/spy.py": TOOLS,
    }


def broken_package() -> dict[str, Any]:
    """Writes a package without declarations that fails at import with the value of the other package."""
    return {
        **relay("Broken", ["A"]),
        "tools": {"tools": [{"agent": "A", "file": "b.py", "function": "b"}]},
        "tools/b.py": "import os\nraise RuntimeError('cannot start with ' + os.environ['CANARY_WORD'])\ndef b(): ...\n",
    }


def echo_answer(server: ModelServer, number: int) -> Answer:
    """Calls each tool, then repeats their results."""
    messages = server.requests[number]["messages"]
    tokens = usage(10, 1)
    if number == 0:
        calls = [
            {"id": f"call_{name}", "type": "function", "function": {"name": name, "arguments": "{}"}} for name in NAMES
        ]
        return completion(None, tool_calls=calls, usage=tokens)
    return completion("\n".join(["I saw:", *(str(each["content"]) for each in messages[1:])]), usage=tokens)


async def has_delivered(receiver: TraceReceiver) -> bool:
    return {"invoke_workflow Spying", "invoke_workflow Broken"} <= {span.name for span in receiver.spans}


async def run_spying_package(
    stage: Stage, *, more_environ: Mapping[str, str] | None = None, **settings: Any
) -> tuple[Document, Document, ModelServer]:
    stage.package("Spying", spying_package())
    stage.package("Broken", broken_package())
    with model_server(lambda number: echo_answer(server, number)) as server:
        stage.models({"default": {"provider": "openai", "model": "stub", "base_url": server.url}})
        await stage.start_worker(environ={**os.environ, **CANARIES, **(more_environ or {})}, **settings)
        run = await stage.wait_for_end((await stage.accept("Spying")).run_id)
        failed = await stage.wait_for_end((await stage.accept("Broken")).run_id)
    return run, failed, server


async def everything_stored(stage: Stage) -> str:
    database = stage.store.database
    documents = [await database[name].find().to_list(None) for name in await database.list_collection_names()]
    return json.dumps(documents, default=str, ensure_ascii=False)


async def metrics_page(stage: Stage) -> str:
    found = re.search(r'metrics"?[=:] ?"?(127\.0\.0\.1:\d+)', stage.log())
    assert found is not None
    response = await asyncio.to_thread(urlopen, f"http://{found[1]}/metrics")
    with response:
        page: str = response.read().decode()
    assert "unattended_" in page
    return page


async def command_outputs(stage: Stage, *command: str, environment: Mapping[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", str(PROGRAM), *command, "--json"),
        env=environment,
        cwd=stage.folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert json.loads(out), (out, err)
    return (out + err).decode()


def canaries_in(text: str) -> list[str]:
    return [mark for mark in MARKS if mark in text]


@pytest.mark.design("U-6", "D1-75", "D4-65")
@pytest.mark.parametrize("log_format", ["console", "json"])
async def test_in_production_a_canary_is_nowhere(stage: Stage, log_format: str) -> None:
    wordy = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true", "OTEL_BSP_SCHEDULE_DELAY": "100"}
    with trace_receiver() as receiver:
        changes: dict[str, Any] = {
            "environment": "production",
            "log_format": log_format,
            "otlp_endpoint": receiver.url,
        }
        run, failed, server = await run_spying_package(stage, more_environ=wordy, **changes)
        await wait_until("the spans have come", lambda: has_delivered(receiver))

    assert (run["state"], await stage.agents_of(run["_id"])) == ("succeeded", ["Spy", "Next"])
    assert failed["state"] == "failed"
    assert "cannot start with (hidden)" in failed["outcome"]["reason"]
    assert run["context"]["copied"] == {"deep": ["(hidden)"]}
    assert not {"key", "config", "context_aware"} & set(run["context"])
    assert [len(request["messages"]) for request in server.requests][:2] == [2, 3 + len(NAMES)]
    assert "(hidden)" in json.dumps(server.requests)
    assert canaries_in(json.dumps(server.requests, ensure_ascii=False)) == []
    assert canaries_in(await everything_stored(stage)) == []
    assert canaries_in(stage.log()) == []
    assert all(said in stage.log() for said in ("tool_failed", "environment_variables_purged", "it is (hidden)"))
    assert canaries_in(await metrics_page(stage)) == []
    assert canaries_in(b"".join(receiver.raw).decode(errors="replace")) == []
    assert "it was (hidden)" in receiver.spans_named("chat stub")[1].attributes["gen_ai.input.messages"]
    settings = replace(stage.settings, environment="production", environ={**os.environ, **CANARIES})
    for command in (
        ("runs", "show", run["_id"]),
        ("runs", "show", failed["_id"]),
        ("runs", "list"),
        ("usage",),
        ("packages", "list"),
        ("packages", "show", "Spying"),
        ("validate", "packages"),
        ("validate", "packages", "--production"),
    ):
        assert canaries_in(await command_outputs(stage, *command, environment=as_environment(settings))) == [], command


CHANNELS = """
import os
from core.workflow.ui_tools import emit_ui_surface
from logs.logging_config import get_workflow_logger
from logs.tools_logs import get_tool_logger, log_tool_event

KEY = os.environ["CANARY_WORD"]

async def tells(context_variables) -> str:
    context_variables["plain"] = f"kept {KEY}"
    get_workflow_logger(workflow_name="Channels").info("found %s", KEY, found={"deep": [KEY]})
    log_tool_event(get_tool_logger(tool_name="tells"), action="tell", message=KEY, found=KEY)
    return await emit_ui_surface("Card", {"shown": KEY}, display=KEY)

def fails() -> str:
    raise ValueError(f"it was {KEY}!")

def keeps(context_variables, error_type, error_message, agent, turn):
    context_variables["told"] = [error_type, error_message, os.environ["CANARY_WORD"], agent, turn]
"""
STATE: Mapping[str, Any] = {"type": "state", "persist": True}


def filled_package(database: str) -> dict[str, Any]:
    """The agent Spy puts the canary wherever a later turn of Next could show it."""
    stored = {"type": "data_reference", "database_name": database, "collection": "notes", "fields": ["text"]}
    fresh = {**stored, "query_template": {"app_id": "{{runtime.app_id}}"}, "refresh_strategy": "per_turn"}
    declared = {
        "key": {"type": "string", "source": {"type": "environment", "env_var": "CANARY_WORD"}},
        "plain": {"type": "string", "source": {**STATE, "default": "nothing"}},
        "fresh": {"type": "string", "source": fresh},
        "told": {"type": "array", "source": {"type": "state", "default": []}},
    }
    package = relay("Channels", ["Spy", "Next"], inputs={"fails": {"type": "boolean", "default": False}})
    package["agents"]["agents"][1]["system_message"] = "Sees {plain}, ${fresh}, {{key}}."
    judged = [("Spy", "When ${plain} and ${fresh} are known"), ("terminate", "When ${key} is set")]
    package["handoffs"]["handoff_rules"] += [
        {"source_agent": "Next", "target_agent": target, "condition_type": "string_llm", "condition": text}
        for target, text in judged
    ]
    package["context_variables"] = {"definitions": declared, "agents": {"Next": ["plain", "fresh", "key"]}}
    functions = {"Spy": {"function": "tells"}, "Next": {"function": "fails", "on_error": "fail"}}
    package["tools"] = {
        "tools": [{"agent": agent, "file": "say.py", **each} for agent, each in functions.items()],
        "lifecycle_tools": [{"trigger": "on_fail", "file": "say.py", "function": "keeps"}],
    }
    package["tools/say.py"] = CHANNELS
    return package


@pytest.mark.parametrize("fails", [False, True])
async def test_in_production_a_canary_is_in_no_template_event_or_kept_state(stage: Stage, fails: bool) -> None:
    database = stage.store.database
    await database["notes"].insert_one({"app_id": "acme", "text": f"read again: {CANARIES['CANARY_WORD']}"})
    stage.package("Channels", filled_package(database.name))

    def call_answer(name: str) -> Answer:
        return completion(
            None,
            tool_calls=[{"id": "c", "type": "function", "function": {"name": name, "arguments": "{}"}}],
            usage=usage(1, 1),
        )

    said = [call_answer("tells"), completion("told", usage=usage(1, 1)), call_answer("fails")]
    with model_server(
        lambda number: said[number] if number < 2 + fails else completion("ok", usage=usage(1, 1))
    ) as server:
        stage.models({"default": {"provider": "openai", "model": "stub", "base_url": server.url}})
        await stage.start_worker(
            environment="production",
            environ={**os.environ, **CANARIES, "CONTEXT_VERBOSE_DEBUG": "1"},
            verbose_debug=True,
        )
        run = await stage.wait_for_end((await stage.accept("Channels")).run_id)

    assert (run["state"], run["outcome"]["kind"]) == (("failed", "tool_error") if fails else ("succeeded", "completed"))
    prompt = server.requests[2]["messages"][0]["content"]
    assert prompt.startswith("Sees kept (hidden), read again: (hidden), .")
    offered = {each["function"]["name"]: each["function"]["description"] for each in server.requests[2]["tools"]}
    assert offered["transfer_to_Spy"] == "When kept (hidden) and read again: (hidden) are known"
    assert "transfer_to_terminate" not in offered
    assert canaries_in(json.dumps(server.requests, ensure_ascii=False)) == []
    assert run["context"]["told"][2:] == (["(hidden)", "Next", 2] if fails else [])
    assert ("hidden_value_not_kept" in stage.log()) is not fails
    assert await database["kept_states"].find({"value": {"$exists": True}}).to_list(None) == []
    assert all(event in stage.log() for event in ("ui_surface_not_shown", "context_changed", "found (hidden)"))
    assert canaries_in(stage.log()) == []
    await database["notes"].drop()
    assert canaries_in(await everything_stored(stage)) == []


async def test_in_development_the_same_package_sees_and_shows_it(stage: Stage) -> None:
    run, failed, server = await run_spying_package(stage)

    assert await stage.agents_of(run["_id"]) == ["Spy", "Leaked"]
    assert run["context"]["key"] == CANARIES["CANARY_WORD"]
    assert run["context"]["config"] == {"token": "config-canary-55e1"}
    assert canaries_in(server.requests[0]["messages"][0]["content"]) == list(MARKS)
    assert canaries_in(json.dumps(server.requests[1]["messages"][-len(NAMES) :])) == list(MARKS)
    assert canaries_in(failed["outcome"]["reason"]) == ["canary-7f3a", "second-line-9b1c"]
    assert canaries_in(stage.log()) == ["canary-7f3a", "second-line-9b1c"]


async def test_a_variable_that_an_edit_declares_is_hidden_from_the_next_run_on(stage: Stage) -> None:
    package = {**relay("Edited", ["A"]), "tools/spy.py": TOOLS}
    package["tools"] = {"tools": [{"agent": "A", "file": "spy.py", "function": "returns"}]}
    stage.package("Edited", package)
    stage.answers({"A": [{"tool_calls": [{"name": "returns"}]}, {"text": "done"}]})
    await stage.start_worker(environment="production", environ={**os.environ, **CANARIES})
    first = await stage.wait_for_end((await stage.accept("Edited")).run_id)

    stage.package("Edited", {"context_variables": spying_package()["context_variables"]})

    async def edited_run() -> Document | None:
        run = await stage.wait_for_end((await stage.accept("Edited")).run_id)
        return run if run["package_version"] != first["package_version"] else None

    later = await wait_until("a run uses the edited package", edited_run)
    assert canaries_in(str(await stage.store.committed_turns(first["_id"], up_to=1))) != []
    [turn] = await stage.store.committed_turns(later["_id"], up_to=1)
    assert turn["events"][1]["tool_results"][0]["text"] == "(hidden)"


async def test_the_key_of_a_model_is_hidden_everywhere(stage: Stage) -> None:
    key = "canary-7f3a-of-the-model"
    spy = {**spying_package(), "context_variables": {"definitions": {}}}
    spy["orchestrator"]["initial_message"] = f"Remember {key}."
    spy["agents"]["agents"][0]["system_message"] = f"You know {key}."
    stage.package("Spying", spy)
    with model_server(lambda number: echo_answer(server, number)) as server:
        stage.models(
            {"default": {"provider": "openai", "model": "stub", "base_url": server.url, "api_key": "env:CANARY_WORD"}}
        )
        await stage.start_worker(environ={**os.environ, **CANARIES, "CANARY_WORD": key})
        run = await stage.wait_for_end((await stage.accept("Spying")).run_id)

    assert run["state"] == "succeeded"
    prompt, opening = server.requests[0]["messages"]
    assert (prompt["content"], opening["content"]) == ("You know (hidden).", "Remember (hidden).")
    assert "canary-7f3a" not in json.dumps(server.requests)
    assert "canary-7f3a" not in await everything_stored(stage)
    assert "canary-7f3a" not in stage.log()
