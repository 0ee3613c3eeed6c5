"""Transfers: what a model is offered for judged rules, and what its choice does."""

import json
import re
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from ag2.events import ModelResponse, ToolCallEvent, ToolCallsEvent

from tests.unit.workflows.chats import Chat, build_chat
from tests.unit.workflows.normal_form import agents, package, tool
from tests.unit.workflows.packages import ORCHESTRATOR, load, rule, write_tool
from workflows.chat.chat_state import LiveTurn
from workflows.chat.history.messages import build_messages, to_history
from workflows.chat.providers.script import ScriptClient
from workflows.chat.routing.transfers import (
    MAX_DESCRIPTION_CHARACTERS,
    TransferTool,
    build_transfer_tools,
    describe_transfers,
)
from workflows.context.redaction import Redactor
from workflows.outcome import OutcomeKind
from workflows.package.normal_form.package_model import Package, Rule

NOTE = """
def note(text: str, context_variables=None) -> str:
    context_variables.set("noted", text)
    return "noted"
"""


def offered_tools(checked: Package, agent: str = "A", **context: Any) -> dict[str, str]:
    made = describe_transfers(build_transfer_tools(checked, agent), **{"values": {}, **context})
    return {name: each.description for name, each in made.items()}


def judging_package(*rules: Rule, names: str = "ABC", **parts: Any) -> Package:
    return package(agents=agents(*names), rules=rules, **parts)


def test_each_target_is_one_tool_described_by_its_condition() -> None:
    checked = judging_package(
        Rule("A", "B", judgement="the draft is ready"),
        Rule("A", "B", condition="${x}"),
        Rule("A", "user", judgement="a person is asked for"),
        Rule("A", "B", judgement="time is short"),
        Rule("A", "B", judgement="the draft is ready"),
        Rule("B", "C", judgement="of another agent"),
    )

    assert offered_tools(checked) == {
        "transfer_to_B": "the draft is ready or time is short",
        "transfer_to_user": "a person is asked for",
    }
    assert offered_tools(checked, "C") == {}


VIP = Rule("A", "B", judgement="When ${stage} is near and the customer is a VIP_customer")
SANDBOX = Rule("A", "B", judgement="in the Sandbox")


@pytest.mark.design("D1-66", "D1-17", "D1-40")
@pytest.mark.parametrize(
    ("rules", "context", "described"),
    [
        (
            [VIP],
            {"exposed": ["stage"], "values": {"stage": "pay"}},
            "When pay is near and the customer is a VIP_customer",
        ),
        ([VIP], {"exposed": ["stage"], "values": {"stage": None}}, "When  is near and the customer is a VIP_customer"),
        ([VIP], {"exposed": [], "values": {"stage": "pay"}}, VIP.judgement),
        (
            [VIP],
            {"exposed": ["stage"], "values": {"stage": "${tier}"}, "suppressed": {"tier"}},
            "When ${tier} is near and the customer is a VIP_customer",
        ),
        (
            [VIP],
            {"exposed": ["stage"], "values": {"stage": "x" * 201}},
            f"When {'x' * 200}… (cut) is near and the customer is a VIP_customer",
        ),
        ([VIP], {"suppressed": {"stage"}}, None),
        ([VIP], {"suppressed": {"vip_customer"}}, None),
        ([VIP], {"suppressed": {"vip", "customers", "near_by"}}, VIP.judgement),
        ([Rule("A", "B", judgement="in VIP-Mode")], {"suppressed": {"vip-mode"}}, None),
        ([SANDBOX, VIP], {"suppressed": {"sandbox"}}, VIP.judgement),
        ([SANDBOX, VIP], {}, f"in the Sandbox or {VIP.judgement}"),
    ],
)
def test_a_judged_text_is_filled_and_hidden_with_its_names(
    rules: list[Rule], context: dict[str, Any], described: str | None
) -> None:
    assert offered_tools(judging_package(*rules), **context) == (
        {} if described is None else {"transfer_to_B": described}
    )


def test_ends_with_different_reasons_are_different_tools() -> None:
    checked = judging_package(
        Rule("A", "terminate", judgement="all is done"),
        Rule("A", "terminate", judgement="it cannot be done", termination_reason="workflow_failed"),
    )
    assert offered_tools(checked) == {
        "transfer_to_terminate": "all is done",
        "transfer_to_terminate_2": "it cannot be done",
    }


def test_names_are_what_providers_take_and_each_is_another() -> None:
    names = ["Café-Guide", "Caf__Guide", "Caf_-Guide", "名", "N" * 64, "N" * 63, "a-b_C9"]
    checked = package(
        agents=agents("A", *names), rules=tuple(Rule("A", name, judgement=f"to {name}") for name in names)
    )

    made = offered_tools(checked)

    assert list(made)[-1] == "transfer_to_a-b_C9"
    assert list(made.values()) == [f"to {name}" for name in names]
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in made)


def test_a_tool_of_the_agent_keeps_its_name() -> None:
    rules = [Rule("A", "B", judgement="it is ready")]

    assert list(offered_tools(judging_package(*rules, tools=(tool("transfer_to_B"),)))) == ["transfer_to_B_2"]
    assert list(offered_tools(judging_package(*rules, tools=(tool("transfer_to_B", agent="C"),)))) == ["transfer_to_B"]


async def test_the_schema_has_no_arguments_and_nothing_is_registered() -> None:
    (transfer,) = build_transfer_tools(judging_package(Rule("A", "B", judgement="x" * 5_000)), "A")
    assert isinstance(transfer, TransferTool)

    live = LiveTurn(cast("Any", None), "A", 1, transfers=describe_transfers([transfer], values={}))
    with live.as_current():
        (schema,) = await transfer.schemas(None)  # type: ignore[arg-type]  # -- it looks at nothing
    async with AsyncExitStack() as stack:
        transfer.register(stack, None)  # type: ignore[arg-type]  # -- the same
        assert not stack._exit_callbacks  # type: ignore[attr-defined]  # -- the stack's inside

    shown = schema.function  # type: ignore[attr-defined]  # -- of function tools
    assert (shown.name, len(shown.description)) == ("transfer_to_B", MAX_DESCRIPTION_CHARACTERS)
    assert shown.parameters["properties"] == {}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def chat(folder: Path, answers: Any, *rules: Mapping[str, Any], **orchestrator: Any) -> Chat:
    write_tool(folder, "note.py", NOTE)
    checked = load(
        folder,
        orchestrator={**ORCHESTRATOR, **orchestrator},
        handoffs={"handoff_rules": list(rules)},
        tools=[{"agent": "A", "file": "note.py", "function": "note"}],
        context_variables={"definitions": {"noted": {"source": {"type": "state", "default": ""}}}},
    )
    assert not checked.is_refused, checked.findings
    return Chat(build_chat(checked, {"answers": answers, "default": {"text": "ok"}}, folder), {"noted": ""})


def judged_rule(source: str, target: str, text: str = "it is ready", **fields: Any) -> Mapping[str, Any]:
    kind = {"handoff_type": "condition", "condition_type": "string_llm", "condition": text}
    return {"source_agent": source, "target_agent": target, **kind, **fields}


END = rule("B", "terminate")


async def test_a_transfer_ends_the_turn_and_wins_over_later_rules(tmp_path: Path) -> None:
    answers = {"A": [{"tool_calls": [call("transfer_to_B")]}]}
    outcome, kept = await chat(tmp_path, answers, judged_rule("A", "B"), rule("A", "terminate"), END).run()

    turn = kept.turn(1)
    assert outcome.kind is OutcomeKind.COMPLETED
    assert (kept.speakers, turn.text, list(turn.events), turn.handoff) == (["A", "B"], "", [], "B")
    assert [each.agent for each in kept.calls] == ["A", "B"]  # no model is called after it


async def test_without_a_transfer_the_rules_after_the_turn_decide(tmp_path: Path) -> None:
    _, kept = await chat(tmp_path, {}, judged_rule("A", "B"), rule("A", "terminate"), END).run()
    assert [(turn.agent, turn.handoff) for turn in kept.turns] == [("A", "terminate")]


async def test_the_tools_beside_a_transfer_run_and_its_text_is_kept(tmp_path: Path) -> None:
    both = {"text": "Noted, go on.", "tool_calls": [call("note", text="x"), call("transfer_to_B")]}
    _, kept = await chat(tmp_path, {"A": [both]}, judged_rule("A", "B"), END).run()

    turn = kept.turn(1)
    assert (turn.text, turn.handoff, kept.context(1)["noted"]) == ("Noted, go on.", "B", "x")
    assert [each["name"] for each in turn.as_document()["tool_calls"]] == ["note"]
    assert [each["text"] for line in turn.events for each in line.get("tool_results", ())] == ["noted"]
    assert len(kept.calls) == 2


async def test_a_transfer_may_come_after_other_answers_of_the_turn(tmp_path: Path) -> None:
    answers = {"A": [{"tool_calls": [call("note", text="x")]}, {"tool_calls": [call("transfer_to_B")]}]}
    _, kept = await chat(tmp_path, answers, judged_rule("A", "B"), END).run()

    assert (kept.speakers, kept.turn(1).text, kept.context(1)["noted"]) == (["A", "B"], "", "x")


async def test_of_several_transfers_the_first_one_is_taken(tmp_path: Path) -> None:
    answers = {"A": [{"tool_calls": [call("transfer_to_terminate_2"), call("transfer_to_B")]}]}
    failing = judged_rule("A", "terminate", "it cannot be done", termination_reason="workflow_failed")
    rules = [judged_rule("A", "B"), judged_rule("A", "terminate"), failing, END]

    outcome, kept = await chat(tmp_path, answers, *rules).run()

    assert (outcome.kind, kept.speakers) == (OutcomeKind.WORKFLOW_FAILED, ["A"])


async def test_a_transfer_that_was_not_offered_is_an_unknown_tool(tmp_path: Path) -> None:
    answers = {"A": [{"tool_calls": [call("transfer_to_C")]}, {"text": "then not"}]}
    _, kept = await chat(tmp_path, answers, judged_rule("A", "B"), rule("A", "terminate"), END).run()

    assert (kept.turn(1).text, kept.turn(1).handoff) == ("then not", "terminate")


@pytest.mark.parametrize("arguments", ["", "{}", '{"why": "because"}', "not JSON"])
async def test_the_arguments_of_a_transfer_mean_nothing(tmp_path: Path, arguments: str, monkeypatch: Any) -> None:
    async def answer(*_: Any, **__: Any) -> ModelResponse:
        calls = [ToolCallEvent(id="c1", name="transfer_to_terminate", arguments=arguments)]
        return ModelResponse(tool_calls=ToolCallsEvent(calls))

    monkeypatch.setattr(ScriptClient, "__call__", answer)
    outcome, kept = await chat(tmp_path, {}, judged_rule("A", "terminate")).run()

    assert (outcome.kind, kept.turn(1).handoff) == (OutcomeKind.COMPLETED, "terminate")


@pytest.mark.parametrize(("human", "kind"), [(True, OutcomeKind.NEEDS_HUMAN), (False, OutcomeKind.COMPLETED)])
async def test_a_model_may_hand_over_to_a_person(tmp_path: Path, human: bool, kind: OutcomeKind) -> None:
    answers = {"A": [{"tool_calls": [call("transfer_to_user")]}]}
    outcome, kept = await chat(tmp_path, answers, judged_rule("A", "user"), human_in_the_loop=human).run()

    assert (outcome.kind, kept.turn(1).handoff) == (kind, "user")


async def test_an_agent_may_choose_to_stay(tmp_path: Path) -> None:
    answers = {"A": [{"tool_calls": [call("transfer_to_A")]}, {"text": "enough"}]}
    _, kept = await chat(tmp_path, answers, judged_rule("A", "stay"), rule("A", "terminate")).run()

    assert [(turn.text, turn.handoff) for turn in kept.turns] == [("", "A"), ("enough", "terminate")]


async def test_a_network_offers_transfers_too(tmp_path: Path) -> None:
    answers = {"A": [{"tool_calls": [call("transfer_to_B")]}]}
    network = {"orchestration_pattern": "ag2_network"}
    _, kept = await chat(tmp_path, answers, judged_rule("A", "B"), rule("A", "terminate"), END, **network).run()

    assert kept.speakers == ["A", "B"]


async def test_transfers_are_no_tool_calls_of_the_limit(tmp_path: Path) -> None:
    answers = {"A": [{"tool_calls": [call("note", text="x"), call("transfer_to_B"), call("transfer_to_B")]}]}
    _, kept = await chat(tmp_path, answers, judged_rule("A", "B"), END).run()

    assert kept.checkpoint(1).counters.tool_calls == 1


async def test_what_a_later_turn_sees_answers_every_call_and_is_never_blank(tmp_path: Path) -> None:
    first = {"text": " ", "tool_calls": [call("note", text="x"), call("transfer_to_B")]}
    answers = {"A": [first, {"text": "", "tool_calls": [call("transfer_to_B")]}, {"text": "enough"}]}
    rules = [judged_rule("A", "B"), rule("A", "terminate"), rule("B", "A")]

    _, kept = await chat(tmp_path, answers, *rules).run()

    assert kept.speakers == ["A", "B", "A", "B", "A"]
    history, question = to_history(build_messages("A", "Begin.", kept.turns[:-1]))
    own = [event for event in history if isinstance(event, ModelResponse)]
    assert question == "[B]: ok"
    assert [([each.name for each in event.tool_calls.calls], event.content) for event in own] == [(["note"], None)]
    assert len(json.dumps([dict(line) for turn in kept.turns for line in turn.events])) > 0


def test_transfers_are_built_once_for_all_chats(tmp_path: Path) -> None:
    made = chat(tmp_path, {}, judged_rule("A", "B"), END).built

    (transfer,) = [each for each in made.agents["A"].tools if isinstance(each, TransferTool)]
    assert [each.target for each in transfer.rules] == ["B"]


@pytest.mark.design("D1-17", "D1-40", "D1-66")
@pytest.mark.parametrize("hidden", [frozenset(), frozenset({"noted"})], ids=["development", "production"])
async def test_a_rule_that_names_a_hidden_variable_cannot_be_taken(hidden: frozenset[str], tmp_path: Path) -> None:
    answers = {"A": [{"tool_calls": [call("transfer_to_B")]}, {"text": "done"}]}
    made = chat(tmp_path, answers, judged_rule("A", "B", "When noted is set"), rule("A", "terminate"), END)
    made.suppressed = hidden

    _, kept = await made.run()

    told = [each["text"] for line in kept.turn(1).events for each in line.get("tool_results", ())]
    assert kept.speakers == (["A"] if hidden else ["A", "B"])
    assert told == (["There is no tool transfer_to_B; there are: note."] if hidden else [])


async def test_what_is_offered_is_decided_once_in_a_turn_without_hidden_values(tmp_path: Path) -> None:
    answers = {"A": [{"tool_calls": [call("note", text="second")]}, {"tool_calls": [call("transfer_to_B")]}]}
    exposed = {"definitions": {"noted": {"source": {"type": "state", "default": ""}}}, "agents": {"A": ["noted"]}}
    write_tool(tmp_path, "note.py", NOTE)
    rules = [judged_rule("A", "B", "When ${noted} is said"), END]
    tools = [{"agent": "A", "file": "note.py", "function": "note"}]
    made = Chat(
        build_chat(
            load(tmp_path, handoffs={"handoff_rules": rules}, tools=tools, context_variables=exposed),
            {"answers": answers, "default": {"text": "ok"}},
            tmp_path,
        ),
        {"noted": "first canary-7"},
        redactor=Redactor(["canary-7"]),
    )
    shown: list[str] = []
    client = made.built.agents["A"].config.create()._metered  # type: ignore[union-attr]  # -- the metered client's inside
    inner = client._inner

    async def listening(messages: Any, context: Any, **request: Any) -> Any:
        shown.extend(each.function.description for each in request["tools"] if each.function.name == "transfer_to_B")
        return await inner(messages, context, **request)

    client._inner = listening
    await made.run()

    assert shown == ["When first (hidden) is said"] * 2
