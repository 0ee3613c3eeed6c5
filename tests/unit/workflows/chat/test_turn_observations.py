"""Observations of a turn: in a chat, in a resumed one, and before the first turn."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.chats import Chat, ChatRecorder, build_chat
from tests.unit.workflows.packages import ORCHESTRATOR, load, rule, write_tool
from workflows.chat.chat_state import Conversation
from workflows.chat.history.transcript import Turn, tool_results
from workflows.chat.model_call.metered_client import RunMeter
from workflows.chat.turn import observe_turn
from workflows.context.context_variables import ContextVariables
from workflows.context.state.state_transitions import ObservedToolResult
from workflows.outcome import OutcomeKind

PAY = """
def pay(amount: int) -> dict:
    if amount > 100:
        raise ValueError("too much")
    return {"status": "paid", "receipt": {"amount": amount}}
"""
CALL = {"tool_calls": [{"name": "pay", "arguments": {"amount": 7}}]}
TOO_MUCH = {"tool_calls": [{"name": "pay", "arguments": {"amount": 700}}]}
MISFIT = {"tool_calls": [{"name": "pay", "arguments": {"amount": "lots"}}]}
UNKNOWN = {"tool_calls": [{"name": "refund", "arguments": {}}]}


def chat(folder: Path, answers: Any, definitions: Any, rules: list[Any], **orchestrator: Any) -> Chat:
    write_tool(folder, "pay.py", PAY)
    package = load(
        folder,
        context_variables={"definitions": definitions},
        handoffs={"handoff_rules": rules},
        tools=[{"agent": "A", "file": "pay.py", "function": "pay"}],
        orchestrator={**ORCHESTRATOR, **orchestrator},
    )
    defaults = {each.name: each.default for each in package.variables.values()}
    return Chat(build_chat(package, {"answers": {"A": answers}, "default": {"text": "ok"}}, folder), defaults)


def state(*triggers: Any, default: Any = None) -> dict[str, Any]:
    return {"source": {"type": "state", "default": default, "triggers": list(triggers)}}


ON_PAID = {"type": "tool_response", "tool": "pay", "response_key": "receipt"}
ON_FAILURE = {"type": "tool_response", "tool": "pay", "status": "error"}


@pytest.mark.design("D1-72", "D2-18")
@pytest.mark.parametrize(
    ("entry", "receipt", "failed", "next_agent"),
    [(CALL, {"amount": 7}, None, "B"), (TOO_MUCH, None, True, "A"), (MISFIT, None, True, "A"), ({}, None, None, "A")],
)
async def test_what_a_tool_answered_routes_the_same_turn(
    tmp_path: Path, entry: dict[str, Any], receipt: Any, failed: Any, next_agent: str
) -> None:
    paying = chat(
        tmp_path,
        [*([entry] if entry else []), {"text": "done"}],
        {"receipt": state(ON_PAID), "failed": state(ON_FAILURE)},
        [rule("A", "B", "${receipt} != null"), rule("A", "A"), rule("B", "terminate")],
        max_turns=1,
    )

    _, kept = await paying.run()

    assert (kept.context(1)["receipt"], kept.context(1)["failed"]) == (receipt, failed)
    assert kept.checkpoint(1).next_agent == next_agent


async def test_a_failed_tool_stays_failed_in_what_is_kept(tmp_path: Path) -> None:
    answers = [CALL, TOO_MUCH, MISFIT, UNKNOWN, {"text": "done"}]
    _, kept = await chat(tmp_path, answers, {}, [rule("A", "terminate")]).run()

    results = tool_results(kept.turn(1).events)

    assert [(each.tool, each.ok) for each in results] == [
        ("pay", True), ("pay", False), ("pay", False), ("refund", False)
    ]  # fmt: skip
    assert results[0].value == {"status": "paid", "receipt": {"amount": 7}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1]}', {"a": [1]}),
        ("true", True),
        ("plain words", "plain words"),
        ("", ""),
        ("NaN", "NaN"),
        (str(2**70), str(2**70)),
        ("[" * 100_000, "[" * 100_000),
        ("The tool t failed: no", "The tool t failed: no"),
    ],
)
def test_a_result_is_its_json_where_a_run_can_hold_it(text: str, value: Any) -> None:
    events: list[dict[str, Any]] = [
        {"text": None, "tool_calls": []},
        {"tool_results": [{"id": "1", "name": "t", "text": text}]},
    ]

    assert tool_results(events) == (ObservedToolResult("t", value),)


@pytest.mark.design("D1-71", "D2-18")
async def test_turns_are_counted_by_agent_over_the_whole_run(tmp_path: Path) -> None:
    counted = {"type": "agent_turn_count", "agent": "A", "count": 2}
    going = chat(
        tmp_path,
        [{"text": "one"}, {"text": "two"}, {"text": "three"}],
        {"enough": state(counted, default=False)},
        [rule("A", "terminate", "${enough}"), rule("A", "B"), rule("B", "A")],
    )

    outcome, kept = await going.run()
    _, resumed = await going.run(kept.copy_up_to(2))

    assert outcome.kind is OutcomeKind.COMPLETED
    assert kept.speakers == resumed.speakers == ["A", "B", "A"]


@pytest.mark.design("D1-50", "D1-73")
def test_the_work_of_a_run_is_that_of_its_turns(tmp_path: Path) -> None:
    package = build_chat(load(tmp_path), {"default": {"text": "ok"}}, tmp_path)
    turns = [Turn("A", "x", duration_s=1.5), Turn("B", "y", duration_s=2.0)]
    going = Conversation(package, ContextVariables(), frozenset(), RunMeter(ChatRecorder().record), "Begin.", turns)

    seen = observe_turn(going, "A", "z", [], duration_s=0.5)

    assert seen.elapsed_s == 4.0
    assert dict(seen.turns_by_agent) == {"A": 2, "B": 1}


async def test_computed_variables_follow_derived_ones_before_routing(tmp_path: Path) -> None:
    definitions = {
        "receipt": state(ON_PAID),
        "amount": {"type": "integer", "source": {"type": "computed", "computation": "receipt.amount"}},
    }
    rules = [rule("A", "B", "${amount} == 7"), rule("A", "A"), rule("B", "terminate")]

    _, kept = await chat(tmp_path, [CALL, {"text": "done"}], definitions, rules, max_turns=1).run()

    assert kept.context(1)["amount"] == 7
    assert kept.turn(1).context_changes["amount"] == 7
    assert kept.checkpoint(1).next_agent == "B"


def chat_started_by_user(folder: Path, rules: list[Any], **orchestrator: Any) -> Chat:
    definitions = {"kind": state(default="b")}
    return chat(folder, [{"text": "a"}], definitions, rules, initial_agent="user", **orchestrator)


async def test_the_rules_of_the_user_choose_the_first_speaker(tmp_path: Path) -> None:
    rules = [rule("user", "A", "${kind} == 'a'"), rule("user", "B"), rule("A", "terminate"), rule("B", "terminate")]
    starting = chat_started_by_user(tmp_path, rules)

    outcome, kept = await starting.run()
    again, resumed = await starting.run(kept.copy_up_to(1))

    assert kept.speakers == resumed.speakers == ["B"]
    assert outcome.kind is again.kind is OutcomeKind.COMPLETED


async def test_a_pre_scope_rule_of_the_user_comes_first(tmp_path: Path) -> None:
    rules = [rule("user", "B"), rule("user", "A", "${kind} == 'b'", condition_scope="pre"), rule("A", "terminate")]

    _, kept = await chat_started_by_user(tmp_path, rules).run()

    assert kept.speakers == ["A"]


@pytest.mark.parametrize(
    ("rules", "human", "kind"),
    [
        ([rule("A", "terminate")], False, OutcomeKind.NO_TRANSITION),
        ([rule("user", "terminate")], False, OutcomeKind.COMPLETED),
        ([rule("user", "user")], False, OutcomeKind.COMPLETED),
        ([rule("user", "user")], True, OutcomeKind.NEEDS_HUMAN),
    ],
)
async def test_a_chat_whose_user_has_no_next_agent_ends_before_it_begins(
    tmp_path: Path, rules: list[Any], human: bool, kind: OutcomeKind
) -> None:
    outcome, kept = await chat_started_by_user(tmp_path, rules, human_in_the_loop=human).run()

    assert outcome.kind is kind
    assert kept.calls == []
