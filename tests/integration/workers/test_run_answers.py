"""Answers to runs that wait for a person, with real workers: resumes, refusals, and crashes."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ops.processes.supervisor import PROGRAM
from tests.integration.model_server import completion, model_server, usage
from tests.integration.stage import Document, Stage, relay, wait_until
from workers.control.change_result import RefusedError, RunNotFoundError
from workers.control.run_answers import AnswerResult, InvalidAnswerError, submit_answer
from workers.control.run_cancellation import cancel
from workers.settings import as_environment

pytestmark = pytest.mark.integration

DYING = Path(__file__).parents[2] / "chaos" / "dying_role.py"
SECRET = "canary-answers-4417"

TOOLS = """
import os
from workflows.tools import use_ui_tool

async def approve(amount: int, context_variables=None) -> dict:
    answer = await use_ui_tool("Refund", {"amount": amount, "key": os.environ.get("DESK_KEY", "")})
    context_variables.set("seen", answer)
    return answer
"""


def rule(source: str, target: str, condition: str | None = None) -> dict[str, Any]:
    kind = {"handoff_type": "condition", "condition": condition} if condition else {"handoff_type": "after_work"}
    return {"source_agent": source, "target_agent": target, **kind}


def state(trigger: dict[str, Any]) -> dict[str, Any]:
    return {"type": "string", "source": {"type": "state", "default": "", "triggers": [trigger]}}


def desk() -> dict[str, Any]:
    """A asks a person by a tool in its turn, and then hands over to the user; B goes on when asked to."""
    return {
        "orchestrator": {"workflow_name": "Desk", "initial_agent": "Clerk", "human_in_the_loop": True},
        "agents": {"agents": [{"name": name, "system_message": f"You are {name}."} for name in ("Clerk", "A", "B")]},
        "tools": {"tools": [{"agent": "A", "file": "desk.py", "function": "approve"}]},
        "tools/desk.py": TOOLS,
        "context_variables": {
            "definitions": {
                "verdict": state({"type": "ui_response", "tool": "Refund", "response_key": "verdict"}),
                "key": {"type": "string", "source": {"type": "environment", "env_var": "DESK_KEY"}},
                "on": {**state({"type": "user_text", "match": {"contains": "go on"}}), "type": "boolean"},
            }
        },
        "handoffs": {
            "handoff_rules": [
                rule("Clerk", "A"),
                rule("A", "user"),
                rule("user", "B", "${on} == true"),
                rule("user", "terminate"),
                rule("B", "terminate"),
            ]
        },
    }


ANSWERS = {
    "Clerk": [{"text": "a refund, please"}],
    "A": [
        {"tool_calls": [{"name": "approve", "arguments": {"amount": 12}}]},
        {"text": "Shall B go on?"},
    ],
    "B": [{"text": "done"}],
}


@pytest.fixture
async def desk_stage(stage: Stage) -> Stage:
    stage.package("Desk", desk())
    stage.answers(ANSWERS)
    return stage


async def send_answer(
    stage: Stage, run_id: str, by: str = "ann", question: int | str = 1, **content: Any
) -> AnswerResult:
    return await submit_answer(stage.store, stage.wakeups, run_id, by=by, question=question, **content)


async def wait_for_question(
    stage: Stage, run_id: str, *, question: int = 1, beside: Callable[[], Awaitable[Any]] | None = None
) -> Document:
    """Waits for this question, since a run that was just answered may not have moved on yet."""

    async def asks() -> Document | None:
        if beside is not None:
            await beside()
        run = await stage.run(run_id)
        assert run["state"] in ("queued", "running", "needs_human"), run["outcome"]
        return run if (run["question"] or {}).get("number") == question else None

    run: Document = await wait_until(f"{run_id} asks question {question}", asks)
    return run


async def test_a_response_and_a_message_answer_a_run_without_redoing_turns(
    desk_stage: Stage,
) -> None:
    stage = desk_stage
    await stage.start_worker()
    run_id = (await stage.accept("Desk")).run_id

    run = await wait_for_question(stage, run_id)
    assert (run["state"], run["turn"], run["outcome"]["kind"]) == ("needs_human", 1, "needs_human")
    asked = dict(run["question"])
    assert run["questions"] == [asked]
    assert asked.pop("id").startswith("q_")
    assert set(asked.pop("digests")) == {"arguments", "payload"}
    assert asked == {
        "number": 1,
        "kind": "tool",
        "agent": "A",
        "turn": 2,
        "text": "approve waits for a person",
        "tool": "Refund",
        "function": "approve",
        "arguments": {"amount": 12},
        "payload": {"amount": 12, "key": ""},
        "keys": ["verdict"],
        "position": "1.1",
    }
    assert await send_answer(stage, run_id, responses={"Refund": {"verdict": "yes"}}) == AnswerResult(
        run_id, 1, repeated=False
    )

    run = await wait_for_question(stage, run_id, question=2)
    asked = {name: run["question"][name] for name in ("kind", "agent", "turn", "text")}
    assert asked == {"kind": "message", "agent": "A", "turn": 2, "text": "Shall B go on?"}
    assert (run["context"]["seen"], run["context"]["verdict"]) == ({"verdict": "yes"}, "yes")
    await send_answer(stage, run_id, message="yes, GO ON", by="bob", question=2)

    run = await stage.wait_for_end(run_id)
    turns = await stage.store.committed_turns(run_id, up_to=run["turn"])
    assert (run["state"], run["question"], run["attempt"]) == ("succeeded", None, 1)
    assert [(turn["agent"], turn["text"]) for turn in turns] == [
        ("Clerk", "a refund, please"),
        ("A", "Shall B go on?"),
        ("user", "yes, GO ON"),
        ("B", "done"),
    ]
    assert turns[2]["context_changes"] == {"on": True}
    assert [row["agent"] for row in await stage.usage_rows(run_id)] == ["Clerk", "A", "A", "B"]
    kept = [{name: value for name, value in each.items() if name not in ("at", "question")} for each in run["answers"]]
    assert kept == [
        {"number": 1, "turn": 1, "by": "ann", "responses": {"Refund": {"verdict": "yes"}}},
        {"number": 2, "turn": 2, "by": "bob", "message": "yes, GO ON"},
    ]
    assert [each["question"]["text"] for each in run["answers"]] == ["approve waits for a person", "Shall B go on?"]
    assert run["answers"][0]["question"]["arguments"] == {"amount": 12}


async def let_worker_crash_at(stage: Stage, landmark: str) -> None:
    dying = await asyncio.create_subprocess_exec(
        *(sys.executable, str(DYING), "worker", landmark, "1"),
        env=as_environment(stage.settings) | {"PYTHONPATH": str(DYING.parents[2])},
        cwd=stage.folder,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    stage.workers.append(dying)
    await asyncio.wait_for(dying.wait(), 30)
    stage.workers.remove(dying)


async def run_to_message_question(stage: Stage) -> str:
    """Inserts a run that waits for a message of the user; its worker is gone."""
    worker = await stage.start_worker()
    run_id = (await stage.accept("Desk")).run_id
    await wait_for_question(stage, run_id)
    await send_answer(stage, run_id, responses={"Refund": {"verdict": "yes"}})
    await wait_for_question(stage, run_id, question=2)
    worker.kill()
    await worker.wait()
    return run_id


@pytest.mark.parametrize("landmark", ["turn written", "turn committed"])
async def test_a_worker_that_dies_at_the_answers_turn_loses_and_repeats_nothing(
    desk_stage: Stage, landmark: str
) -> None:
    stage = desk_stage
    run_id = await run_to_message_question(stage)
    await send_answer(stage, run_id, message="go on", question=2)
    await let_worker_crash_at(stage, landmark)
    assert (await stage.run(run_id))["turn"] == (2 if landmark == "turn written" else 3)

    (stage.folder / "worker-1.log").unlink(missing_ok=True)
    await stage.start_worker()
    run = await stage.reconcile_until_end(run_id)

    assert run["state"] == "succeeded"
    assert await stage.agents_of(run_id) == ["Clerk", "A", "user", "B"]
    assert await stage.store.turns.count_documents({"run_id": run_id}) == 4
    assert [row["agent"] for row in await stage.usage_rows(run_id)].count("B") == 1


@pytest.mark.parametrize("landmark", ["open turn kept", "turn written"])
async def test_a_worker_that_dies_in_an_answered_turn_repeats_no_call(desk_stage: Stage, landmark: str) -> None:
    """It dies when the approved call is recorded, or when the turn is written and not counted yet."""
    stage, paid = desk_stage, desk_stage.folder / "paid"
    recorded = f"    open({str(paid)!r}, 'a').write(f'{{amount}} ')\n    context_variables.set"
    stage.package("Desk", {**desk(), "tools/desk.py": TOOLS.replace("    context_variables.set", recorded)})
    worker = await stage.start_worker()
    run_id = (await stage.accept("Desk")).run_id
    await wait_for_question(stage, run_id)
    worker.kill()
    await worker.wait()
    await send_answer(stage, run_id, responses={"Refund": {"verdict": "yes"}})
    await let_worker_crash_at(stage, landmark)
    assert paid.read_text() == "12 "

    (stage.folder / "worker-1.log").unlink(missing_ok=True)
    await stage.start_worker()
    run = await wait_for_question(stage, run_id, question=2, beside=stage.reconciler().run_pass)

    assert paid.read_text() == "12 "
    assert run["context"]["seen"] == {"verdict": "yes"}
    assert [row["agent"] for row in await stage.usage_rows(run_id)] == ["Clerk", "A", "A"]


async def test_of_two_concurrent_answers_one_counts_and_its_repeat_is_the_same(desk_stage: Stage) -> None:
    stage = desk_stage
    run_id = await run_to_message_question(stage)

    said = [send_answer(stage, run_id, by=by, message="go on", question=2) for by in ("ann", "bob")]
    results = await asyncio.gather(*said, return_exceptions=True)

    [counted] = [each for each in results if isinstance(each, AnswerResult)]
    [refused] = [each for each in results if isinstance(each, RefusedError)]
    run = await stage.run(run_id)
    assert (counted.number, len(run["answers"]), run["state"]) == (2, 2, "queued")
    winner = run["answers"][1]["by"]
    assert str(refused) == f"question 2 of {run_id} was answered by {winner}"
    assert (await send_answer(stage, run_id, by=winner, message="go on", question=2)).repeated
    with pytest.raises(RefusedError, match=f"question 2 of {run_id} was answered by {winner}"):
        await send_answer(stage, run_id, by="eve", message="go on", question=2)
    assert (await stage.run(run_id))["answers"] == run["answers"]


async def test_an_answer_that_does_not_answer_is_refused_and_changes_nothing(desk_stage: Stage) -> None:
    stage = desk_stage
    await stage.start_worker()
    run_id = (await stage.accept("Desk")).run_id
    before = await wait_for_question(stage, run_id)

    for said, why in [
        ({"message": "yes"}, "waits for the tool Refund, which takes no message"),
        ({"responses": {"Refnud": {"verdict": "yes"}}}, "waits for Refund or approve, and gets responses for Refnud"),
        ({"responses": {"Refund": {}, "pay": {}}}, "waits for Refund or approve, and gets responses for Refund, pay"),
        ({"responses": {"Refund": {}}, "question": 2}, "has asked no question 2"),
        ({"responses": {"Refund": {}}, "question": "q_0"}, "has asked no question q_0"),
    ]:
        with pytest.raises(RefusedError, match=why):
            await send_answer(stage, run_id, **said)  # type: ignore[arg-type]  # of all kinds
    with pytest.raises(RunNotFoundError):
        await send_answer(stage, run_id, message="yes", app_id="other")
    with pytest.raises(InvalidAnswerError, match="larger than"):
        await send_answer(stage, run_id, responses={"Refund": {"verdict": "x" * 300_000}})
    assert await stage.run(run_id) == before

    await cancel(stage.store, run_id, by="ann")
    assert (await stage.run(run_id))["question"] is None
    with pytest.raises(RefusedError, match="it has ended as cancelled"):
        await send_answer(stage, run_id, responses={"Refund": {"verdict": "yes"}})


async def test_the_next_agent_is_shown_the_users_answer(desk_stage: Stage) -> None:
    stage = desk_stage
    with model_server(lambda _: completion("done", usage=usage(10, 1))) as server:
        package = desk()
        package["agents"]["agents"][2]["model"] = "hosted"
        stage.package("Desk", package)
        scripted = {"provider": "script", "file": "answers.yaml"}
        hosted = {"provider": "openai", "model": "stub", "base_url": server.url}
        stage.models({"default": scripted, "hosted": hosted})
        run_id = await run_to_message_question(stage)
        await send_answer(stage, run_id, message="go on, in blue", question=2)
        await stage.start_worker()
        run = await stage.wait_for_end(run_id)

    assert run["state"] == "succeeded"
    [request] = server.requests
    assert request["messages"][-1] == {"role": "user", "content": "go on, in blue"}


async def test_a_run_that_asks_before_its_first_turn_is_answered(stage: Stage) -> None:
    source = "from workflows.tools import use_ui_tool\nasync def ask(ctx): ctx['who'] = await use_ui_tool('Who')\n"
    step = {"trigger": "before_chat", "file": "ask.py", "function": "ask"}
    package = {**relay("Asks", ["A"]), "tools": {"tools": [], "lifecycle_tools": [step]}, "tools/ask.py": source}
    stage.package("Asks", package)
    await stage.start_worker()
    run_id = (await stage.accept("Asks")).run_id

    run = await wait_for_question(stage, run_id)
    assert (run["question"]["tool"], run["turn"], run["progress"]) == ("Who", 0, None)
    await send_answer(stage, run_id, responses={"Who": {"name": "$Ann"}})

    run = await stage.wait_for_end(run_id)
    assert (run["state"], run["context"]["who"]) == ("succeeded", {"name": "$Ann"})


async def command(stage: Stage, *arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", str(PROGRAM), "runs", "answer", *arguments),
        env=as_environment(replace(stage.settings, environ={})),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def test_the_command_answers_or_reports_in_one_line_why_not(desk_stage: Stage) -> None:
    stage = desk_stage
    await stage.start_worker()
    run_id = (await stage.accept("Desk")).run_id
    await wait_for_question(stage, run_id)

    code, out, err = await command(stage, run_id, "--question", "1", "-m", "yes")
    assert (code, out) == (1, "")
    assert (
        err
        == f"unattended: {run_id} waits for the tool Refund, which takes no message: answer with responses for Refund\n"
    )
    code, _, err = await command(stage, run_id)
    assert (code, "an answer is needed: --message" in err) == (2, True)
    code, out, _ = await command(
        stage, run_id, "--question", "1", "--response", "Refund.verdict=yes", "--by", "ann", "--json"
    )
    assert (code, json.loads(out)) == (0, {"run_id": run_id, "answer": 1, "repeated": False, "waiting": []})

    run = await wait_for_question(stage, run_id, question=2)
    assert run["answers"][0]["name"] == "ann"
    code, out, _ = await command(stage, run_id[-8:], "--question", "2", "--message", "go on")
    assert (code, out) == (0, f"{run_id} has answer 2, and continues\n")
    assert (await stage.wait_for_end(run_id))["state"] == "succeeded"


async def test_in_production_a_question_shows_nothing_that_is_hidden(desk_stage: Stage) -> None:
    stage = desk_stage
    stage.settings.environ["DESK_KEY"] = SECRET  # type: ignore[index]  # the fixture's own copy
    await stage.start_worker(environment="production")
    run_id = (await stage.accept("Desk")).run_id

    run = await wait_for_question(stage, run_id)
    assert run["question"]["payload"] == {"amount": 12, "key": "(hidden)"}
    await send_answer(stage, run_id, responses={"Refund": {"verdict": "yes"}})
    await wait_for_question(stage, run_id, question=2)
    await send_answer(stage, run_id, message=f"go on with {SECRET}", question=2)
    await stage.wait_for_end(run_id)

    turns = await stage.store.turns.find({"run_id": run_id}).to_list(None)
    assert SECRET not in str(turns)
    assert "go on with (hidden)" in str(turns)
