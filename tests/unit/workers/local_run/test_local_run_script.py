"""Scripts as in docs/testing-packages.md: hand-offs, structured outputs, managers, people, slow models."""

import json
from pathlib import Path
from typing import Any

from tests.unit.workers.local_run.test_local_run import PAIR, package, with_tool
from workers.local_run.run_package import run_package_async

JUDGED = {
    "handoff_rules": [
        {
            "source_agent": "A",
            "target_agent": "B",
            "handoff_type": "condition",
            "condition_type": "string_llm",
            "condition": "the customer wants to write",
        },
        {"source_agent": "A", "target_agent": "terminate", "handoff_type": "after_work"},
        {"source_agent": "B", "target_agent": "terminate", "handoff_type": "after_work"},
    ]
}
OUTPUTS = {
    "models": {"Verdict": {"type": "model", "fields": {"refund": {"type": "bool"}, "amount": {"type": "int"}}}},
    "registry": {"A": "Verdict"},
}
ASKS = """
from workflows.tools import use_ui_tool

async def act():
    answer = await use_ui_tool("approve", {}, chat_id="1", workflow_name="Small")
    return answer["verdict"]
"""


def orchestrator(**more: Any) -> dict[str, Any]:
    return {"workflow_name": "Small", "initial_agent": "A", **more}


async def test_a_handoff_that_the_model_judges_is_a_tool_call(tmp_path: Path) -> None:
    script = {"answers": {"A": [{"tool_calls": [{"name": "transfer_to_B"}]}], "B": [{"text": "hello"}]}}

    report = await run_package_async(package(tmp_path, handoffs=JUDGED), script=script)

    assert report.succeeded, report.outcome
    assert [(turn.agent, turn.handoff) for turn in report.turns] == [("A", "B"), ("B", "terminate")]


async def test_a_structured_output_is_its_json_and_an_unfit_one_is_asked_again(tmp_path: Path) -> None:
    right = json.dumps({"refund": True, "amount": 12})
    script = {"answers": {"A": [{"text": "yes, 12"}, {"text": right}], "B": [{"text": "hello"}]}}

    report = await run_package_async(package(tmp_path, structured_outputs=OUTPUTS), script=script)

    assert report.succeeded, report.outcome
    assert report.turns[0].text == right
    assert [call.agent for call in report.usage] == ["A", "A", "B"]


async def test_the_manager_of_an_auto_pattern_is_scripted_as_group_manager(tmp_path: Path) -> None:
    script = {
        "answers": {
            "A": [{"text": "one"}],
            "B": [{"text": "two"}],
            "group_manager": [{"text": "B"}, {"text": "terminate"}],
        }
    }
    folder = package(tmp_path, orchestrator=orchestrator(orchestration_pattern="AutoPattern"), handoffs=None)

    report = await run_package_async(folder, script=script)

    assert report.succeeded, report.outcome
    assert report.speakers == ["A", "B"]
    assert [call.agent for call in report.usage] == ["A", "group_manager", "B", "group_manager"]


async def test_a_tool_for_people_is_answered_by_ui_responses(tmp_path: Path) -> None:
    folder = with_tool(tmp_path, ASKS)
    script = {"answers": {"A": [{"tool_calls": [{"name": "act"}]}, {"text": "x"}]}, "default": {"text": "y"}}

    answered = await run_package_async(folder, script=script, ui_responses={"approve": {"verdict": "yes"}})
    unanswered = await run_package_async(folder, script=script)

    assert answered.succeeded, answered.outcome
    assert answered.turns[0].tool_calls[0].result == "yes"
    assert unanswered.state == "needs_human"
    asked, how = unanswered.notes[-2:]
    assert (asked, how.partition(":")[0]) == (
        "question 1: act waits for a person [act({})]",
        "ui_responses would answer it",
    )


async def test_a_note_names_the_choices_of_a_question(tmp_path: Path) -> None:
    asks = ASKS.replace('chat_id="1"', 'title="Pay it?", choices=["yes", "no"]')
    folder = with_tool(tmp_path, asks)
    script = {"answers": {"A": [{"tool_calls": [{"name": "act"}]}, {"text": "x"}]}}

    report = await run_package_async(folder, script=script)

    assert report.notes[-2:] == (
        "question 1: Pay it? [act({})]",
        'ui_responses would answer it: {"approve": {"choice": "yes" or "no"}}',
    )


async def test_a_model_that_is_too_slow_is_a_timeout(tmp_path: Path) -> None:
    folder = package(tmp_path, orchestrator=orchestrator(limits={"wall_clock_s": 0.05}), handoffs=PAIR)

    report = await run_package_async(folder, script={"default": {"text": "late", "delay_s": 600}})

    assert (report.state, report.outcome.kind) == ("failed", "timeout")


async def test_the_last_steps_of_a_package_count_in_the_context(tmp_path: Path) -> None:
    tools = {"lifecycle_tools": [{"trigger": "after_chat", "file": "act.py", "function": "act"}]}
    folder = with_tool(tmp_path, "def act(context_variables):\n    context_variables.set('ended', True)\n")
    package(tmp_path, tools=tools)

    report = await run_package_async(folder, script={"default": {"text": "x"}})

    assert report.context["ended"] is True
    assert report.turns[-1].context_changes == {}
