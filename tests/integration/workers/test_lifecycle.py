"""The life cycle of real runs: when the last steps of a package run, and what the store keeps of them."""

import asyncio
import json
import re
import sys
from dataclasses import replace
from typing import Any

import pytest

from ops.processes.supervisor import PROGRAM
from tests.integration.stage import Stage, relay, wait_until
from workers.settings import as_environment

pytestmark = pytest.mark.integration

STEPS = """
import asyncio
from pathlib import Path

LOG = Path({log!r})


def noted(line):
    with LOG.open("a") as log:
        log.write(line + "\\n")


def begin(ctx):
    ctx["profile"] = {{"visits": 1}}


def completed(context_variables, outcome):
    context_variables["greeting"] = {{"text": f"ended as {{outcome}}"}}
    noted("completed")


def failed(context_variables, error, app_id):
    context_variables["closed"] = f"{{app_id}}: {{error}}"
    noted("failed")


def raising(ctx):
    raise ValueError("at the end")


def destroying(ctx):
    ctx._data = None


async def slow_at_first(ctx):
    first = not LOG.exists()
    noted("begun")
    await asyncio.sleep(60 if first else 0)
    noted("ended")
"""
HOOK = "def strict(message):\n    raise ValueError('not like this: ' + message)\n"


def write_lifecycle_package(stage: Stage, *steps: tuple[str, str], **changes: Any) -> None:
    """Writes a package with these steps: moment, function."""
    package = relay("Living", ["A"], **changes.pop("orchestrator", {}))
    entries = [{"trigger": moment, "file": "steps.py", "function": function} for moment, function in steps]
    package["tools"] = {"lifecycle_tools": entries}
    package["tools/steps.py"] = STEPS.format(log=str(stage.folder / "steps.log"))
    stage.package("Living", {**package, **changes})


def steps_taken(stage: Stage) -> list[str]:
    log = stage.folder / "steps.log"
    return log.read_text().split() if log.exists() else []


async def shown_run(stage: Stage, run_id: str) -> Any:
    settings = replace(stage.settings, environ={})
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", str(PROGRAM), "runs", "show", run_id, "--json"),
        env=as_environment(settings),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    return json.loads(out)


def entity(stage: Stage, strategy: str, collection: str, field: str) -> dict[str, Any]:
    place = {"database_name": stage.store.database.name, "collection": collection, "search_by": "app_id"}
    source = {"type": "data_entity", **place, "fields": [field], "write_strategy": strategy}
    return {"type": "object", "source": source}


async def test_what_the_first_and_the_last_steps_write_is_kept_and_written_back(stage: Stage) -> None:
    definitions = {
        "profile": entity(stage, "immediate", "profiles", "visits"),
        "greeting": entity(stage, "on_success", "greetings", "text"),
    }
    steps = [("before_chat", "begin"), ("after_chat", "raising"), ("on_complete", "completed"), ("on_fail", "failed")]
    write_lifecycle_package(stage, *steps, context_variables={"definitions": definitions})
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Living")).run_id)

    assert (run["state"], steps_taken(stage)) == ("succeeded", ["completed"])
    assert run["context"]["greeting"] == {"text": "ended as completed"}
    [turn] = await stage.store.committed_turns(run["_id"], up_to=1)
    assert turn["context_changes"] == {"profile": {"visits": 1}}
    database = stage.store.database
    assert (await database["profiles"].find_one({}, {"_id": 0}))["visits"] == 1  # type: ignore[index]  # -- it is there
    assert (await database["greetings"].find_one({}, {"_id": 0}))["text"] == "ended as completed"  # type: ignore[index]  # it is there
    [error] = (await shown_run(stage, run["_id"]))["errors"]
    assert (error["where"], error["message"]) == ("after_chat steps.py:raising", "at the end")
    assert re.fullmatch(r"tools/steps\.py:\d+, in raising", error["place"])
    assert run["failed_tools"] == 1  # though it succeeded
    assert "raise ValueError" in error["traceback"]


async def test_a_run_whose_result_cannot_be_written_is_closed_as_failed(stage: Stage) -> None:
    definitions = {"profile": entity(stage, "on_success", "profiles", "name")}
    steps = [("before_chat", "begin"), ("on_complete", "completed"), ("on_fail", "failed")]
    write_lifecycle_package(stage, *steps, context_variables={"definitions": definitions})
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Living")).run_id)

    assert (run["state"], run["outcome"]["kind"]) == ("failed", "package_error")
    assert "'visits', which is not one of its fields" in run["outcome"]["reason"]
    assert steps_taken(stage) == ["failed"]


async def test_a_run_whose_context_cannot_be_loaded_is_closed(stage: Stage) -> None:
    inputs = {"region": {"type": "string", "required": True}}
    write_lifecycle_package(stage, ("on_start", "begin"), ("on_fail", "failed"), orchestrator={"inputs": inputs})
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Living")).run_id)

    assert (run["state"], run["outcome"]["kind"]) == ("failed", "package_error")
    assert run["context"]["closed"] == f"acme: {run['outcome']['reason']}"
    assert run["context"]["run_id"] == run["_id"]
    assert "profile" not in run["context"]


@pytest.mark.parametrize("moment", ["after_chat", "before_chat"])
async def test_a_package_that_destroys_its_context_ends_only_its_own_run(stage: Stage, moment: str) -> None:
    write_lifecycle_package(stage, (moment, "destroying"))
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Living")).run_id)

    assert (run["state"], run["outcome"]["kind"], run["worker_losses"]) == ("failed", "package_error", 0)


async def test_a_failing_hook_is_in_the_record_of_the_run(stage: Stage) -> None:
    hook = {"hook_type": "process_message_before_send", "hook_agent": "A", "filename": "own.py", "function": "strict"}
    write_lifecycle_package(stage, ("on_fail", "failed"), hooks={"hooks": [hook]}, **{"hooks/own.py": HOOK})
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Living")).run_id)
    show = await shown_run(stage, run["_id"])

    assert (run["state"], run["outcome"]["kind"], run["turn"]) == ("failed", "tool_error", 0)
    assert run["outcome"]["error"]["agent"] == "A"
    assert show["context"]["closed"].startswith("acme: process_message_before_send own.py:strict of agent A in turn 1")
    [error] = show["errors"]
    assert (error["type"], error["message"]) == ("ValueError", "not like this: ok")
    assert (error["agent"], error["turn"]) == ("A", 1)
    assert show["failed_tools"] == 1  # though its turn is not kept


async def test_a_run_that_is_tried_again_is_closed_after_its_last_attempt_only(stage: Stage) -> None:
    write_lifecycle_package(stage, ("on_start", "begin"), ("on_fail", "failed"))
    stage.answers({}, default={"error": {"status": 503}})
    await stage.start_worker(max_attempts=2)
    run_id = (await stage.accept("Living")).run_id

    async def waits_for_its_second_attempt() -> bool:
        return bool((await stage.run(run_id))["attempt"] == 2)

    await wait_until("the run waits for its second attempt", waits_for_its_second_attempt)
    assert steps_taken(stage) == []
    run = await stage.reconcile_until_end(run_id)

    assert (run["state"], run["outcome"]["kind"]) == ("parked", "model_error")
    assert steps_taken(stage) == ["failed"]
    assert run["context"]["profile"] == {"visits": 1}


async def test_a_worker_that_lost_a_run_stops_closing_it_and_the_next_closes_it(stage: Stage) -> None:
    write_lifecycle_package(stage, ("on_complete", "slow_at_first"))
    await stage.start_worker()
    run_id = (await stage.accept("Living")).run_id

    async def has_begun() -> bool:
        return steps_taken(stage) == ["begun"]

    await wait_until("the run is being closed", has_begun)
    await stage.store.runs.update_one({"_id": run_id}, {"$inc": {"lease.token": 1}})
    run = await stage.reconcile_until_end(run_id)

    assert run["state"] == "succeeded"
    assert steps_taken(stage) == ["begun", "begun", "ended"]
    assert len(await stage.usage_rows(run_id)) == 1


@pytest.mark.parametrize("on_error", ["tell", "fail"])
async def test_a_tool_whose_failure_matters_fails_its_run_and_others_are_counted(stage: Stage, on_error: str) -> None:
    package = relay("Relay", ["A"])
    package["tools"] = {"tools": [{"agent": "A", "file": "post.py", "function": "post", "on_error": on_error}]}
    package["tools/post.py"] = "import os\n\n\ndef post():\n    return os.environ['NO_SUCH_HOOK']\n"
    stage.package("Relay", package)
    stage.answers({"A": [{"tool_calls": [{"name": "post"}]}, {"text": "posted"}]})
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Relay")).run_id)

    assert run["failed_tools"] == 1
    if on_error == "tell":
        assert run["state"] == "succeeded"
        [turn] = await stage.store.committed_turns(run["_id"], up_to=1)
        [error] = turn["errors"]
        assert (error["type"], error["message"]) == ("KeyError", "'NO_SUCH_HOOK'")
        assert error["place"] == "tools/post.py:5, in post"
        return
    assert (run["state"], run["turn"], run["attempt"]) == ("failed", 0, 1)
    assert run["outcome"] == {
        "kind": "tool_error",
        "reason": ("the tool post of agent A failed in turn 1: KeyError: 'NO_SUCH_HOOK' (tools/post.py:5, in post)"),
        "error": {
            "type": "ToolFailed",
            "message": run["outcome"]["reason"],
            "agent": "A",
            "turn": 1,
            "tool": "post",
        },
    }
