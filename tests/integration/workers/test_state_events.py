"""Events that change a state, in real runs: the stored state of a resting run, and its resume."""

from typing import Any

import pytest

from tests.integration.stage import Stage, relay
from tests.integration.workers.test_run_answers import TOOLS, rule, send_answer, wait_for_question

pytestmark = pytest.mark.integration


def counted_state(*triggers: dict[str, Any]) -> dict[str, Any]:
    """Counts events: a lost or repeated event shows."""
    transitions = [
        {"from": number, "to": number + 1, "trigger": trigger} for trigger in triggers for number in range(9)
    ]
    return {"type": "integer", "source": {"type": "state", "default": 0, "transitions": transitions}}


def event(moment: str) -> dict[str, Any]:
    return {"type": "lifecycle", "event": moment}


def write_back_variables(database: str) -> dict[str, Any]:
    """A computed variable that is written to a document when the run succeeds."""
    place = {"database_name": database, "collection": "desks", "search_by": "app_id", "fields": ["closed"]}
    computed = {"type": "computed", "computation": "ends", "persist_to": "desk.closed"}
    return {
        "desk": {"type": "object", "source": {"type": "data_entity", **place, "write_strategy": "on_success"}},
        "closed": {"type": "integer", "source": computed},
    }


def write_handing_package(stage: Stage) -> None:
    """A hands over to B, B before it speaks to C, and C before it speaks to a person; then C calls a tool that asks."""
    package = relay("Handing", ["A", "B", "C"], human_in_the_loop=True)
    package["tools"] = {"tools": [{"agent": "C", "file": "desk.py", "function": "approve"}]}
    package["tools/desk.py"] = TOOLS
    package["context_variables"] = {
        "definitions": {
            "go": {"type": "boolean", "source": {"type": "state", "default": True}},
            **write_back_variables(stage.store.database.name),
            "skips": counted_state(
                {"type": "handoff", "from": "B", "to": "C"}, {"type": "handoff", "from": "C", "to": "user"}
            ),
            "turns": counted_state(event("before_agent"), {"type": "handoff", "to": "B"}),
            "calls": counted_state({"type": "tool_call", "tool": "approve"}),
            "begins": counted_state(event("on_start"), event("before_chat")),
            "ends": counted_state(event("after_chat"), event("on_complete"), {"type": "handoff", "to": "terminate"}),
        }
    }
    package["handoffs"] = {
        "handoff_rules": [
            rule("A", "B"),
            {**rule("B", "C", "${go} == true"), "condition_scope": "pre"},
            {**rule("C", "user", "${go} == true"), "condition_scope": "pre"},
            rule("C", "terminate"),
        ]
    }
    stage.package("Handing", package)
    calls = [{"name": "approve", "arguments": {"amount": 12}}]
    stage.answers({"A": [{"text": "go"}], "C": [{"tool_calls": calls}, {"text": "done"}]})


COUNTS = ("skips", "turns", "calls", "begins", "ends")


def counts(context: dict[str, Any]) -> list[int]:
    return [context[name] for name in COUNTS]


@pytest.mark.design("D4-44")
async def test_each_event_counts_once_however_many_workers_have_the_run(stage: Stage) -> None:
    write_handing_package(stage)
    await stage.start_worker()
    run_id = (await stage.accept("Handing")).run_id

    run = await wait_for_question(stage, run_id)
    assert (run["turn"], run["question"]["kind"]) == (1, "message")
    assert counts(run["context"]) == [0, 2, 0, 2, 0]  # steps before the question belong to the turn of the answer
    await replace_worker(stage)
    await send_answer(stage, run_id, message="go on")
    run = await wait_for_question(stage, run_id, question=2)
    assert (run["turn"], run["question"]["kind"]) == (2, "tool")
    assert counts(run["context"]) == [2, 3, 0, 2, 0]  # hands over to B, which asked before its turn
    await replace_worker(stage)
    await send_answer(stage, run_id, question=2, responses={"Refund": {"verdict": "yes"}})
    run = await stage.reconcile_until_end(run_id)

    assert run["state"] == "succeeded", run["outcome"]
    assert counts(run["context"]) == [3, 4, 1, 2, 3]
    turns = await stage.store.committed_turns(run_id, up_to=3)
    assert [turn["agent"] for turn in turns] == ["A", "user", "C"]
    assert not {"steps", "refreshed", "handoffs"} & turns[-1].keys()  # from the time while it was open
    changed = [{name: value for name, value in turn["context_changes"].items() if name in COUNTS} for turn in turns]
    assert changed == [
        {"turns": 2, "begins": 2},
        {"skips": 2, "turns": 3},
        {"skips": 3, "turns": 4, "calls": 1, "ends": 1},
    ]
    written = await stage.store.database["desks"].find_one({"app_id": "acme"})
    assert written is not None
    assert written["closed"] == 3


async def replace_worker(stage: Stage) -> None:
    stage.workers[-1].kill()
    await stage.start_worker()
