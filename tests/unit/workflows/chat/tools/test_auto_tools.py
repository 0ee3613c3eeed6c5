"""Automatic tools: called with a structured reply's fields, before routing."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.chats import Chat, ChatRecorder, build_chat
from tests.unit.workflows.packages import load, rule, write_tool
from workflows.chat.history.messages import build_messages, to_history
from workflows.context.redaction import Redactor
from workflows.outcome import OutcomeKind

SAY = {"refund": True, "order_id": "7"}
FIELDS = {"refund": "bool", "order_id": "str"}
AUTO = {"auto_tool_mode": True, "system_message": "You are A."}
BY_DECISION = [rule("A", "terminate", "${decided} == true"), rule("A", "B"), rule("B", "terminate")]

SAVE = """
def save(refund: bool, OrderId: str, context_variables):
    context_variables.set("decided", refund)
    return {"saved": OrderId}
"""


def automatic(
    folder: Path,
    *sources: str,
    says: Any = SAY,
    fields: Any = FIELDS,
    agent: Any = AUTO,
    rules: Sequence[Any] = BY_DECISION,
    variables: Any = None,
    tool: Any = None,
    **chat: Any,
) -> Chat:
    """Makes a tool for each source, named by the function that it begins with."""
    entries = []
    for index, source in enumerate(sources):
        function = source.split("def ", 1)[1].split("(")[0]
        write_tool(folder, f"t{index}.py", source)
        entries.append(
            {"agent": "A", "file": f"t{index}.py", "function": function, "auto_invoke": True, **(tool or {})}
        )
    model = {"type": "model", "fields": {name: {"type": kind} for name, kind in fields.items()}}
    package = load(
        folder,
        agents=[{"name": "A", **agent}, {"name": "B"}],
        tools={"tools": entries},
        structured_outputs={"models": {"M": model}, "registry": {"A": "M"}},
        handoffs={"handoff_rules": list(rules)},
        context_variables={"definitions": variables or {"decided": {"type": "boolean", "source": {"type": "state"}}}},
    )
    assert not [each for each in package.findings if each.level == "error" or each.is_blocking], package.findings
    said = says if isinstance(says, list) else [says]
    answers = {"A": [{"text": json.dumps(each)} for each in said]}
    return Chat(build_chat(package, {"answers": answers, "default": {"text": "Well."}}, folder), **chat)


def calls(recorder: ChatRecorder, turn: int = 1) -> list[tuple[str, Any, str]]:
    """Returns name, arguments and result of the automatic calls."""
    asked, answered = recorder.turn(turn).events[-2:]
    assert [each["id"] for each in asked["tool_calls"]] == [each["id"] for each in answered["tool_results"]]
    together = zip(asked["tool_calls"], answered["tool_results"], strict=True)
    return [(call["name"], json.loads(call["arguments"]), result["text"]) for call, result in together]


@pytest.mark.design("D4-19", "D5-17")
async def test_a_tool_is_called_with_the_reply_before_routing(tmp_path: Path) -> None:
    outcome, kept = await automatic(tmp_path / "p", SAVE).run()

    assert outcome.kind is OutcomeKind.COMPLETED, outcome
    assert kept.speakers == ["A"]
    assert calls(kept) == [("save", {"refund": True, "OrderId": "7"}, '{"saved": "7"}')]
    assert kept.turn(1).text == json.dumps(SAY)
    assert kept.context(1)["decided"] is True
    assert [call.agent for call in kept.calls] == ["A"]


@pytest.mark.parametrize(("effects", "marked"), [("none", {"effects": "none"}), ("unknown", {})])
async def test_a_result_marks_its_tool_as_free_of_effects(tmp_path: Path, effects: str, marked: dict[str, str]) -> None:
    _, kept = await automatic(tmp_path / "p", SAVE, tool={"effects": effects}).run()

    [result] = kept.turn(1).events[-1]["tool_results"]
    assert {name: value for name, value in result.items() if name == "effects"} == marked


async def test_its_model_is_offered_no_tools(tmp_path: Path) -> None:
    chat = automatic(tmp_path / "p", SAVE)

    assert [tool.name for tool in chat.built.agents["A"].tools] == []


async def test_a_tool_that_is_not_bound_is_called_without_the_mode_too(tmp_path: Path) -> None:
    chat = automatic(tmp_path / "p", SAVE, agent={}, tool={"bind_to_agent": False})
    _, kept = await chat.run()

    assert [tool.name for tool in chat.built.agents["A"].tools] == []
    assert calls(kept) == [("save", {"refund": True, "OrderId": "7"}, '{"saved": "7"}')]


async def test_a_bound_tool_of_an_agent_without_the_mode_is_its_models(tmp_path: Path) -> None:
    chat = automatic(tmp_path / "p", SAVE, agent={})
    _, kept = await chat.run()

    assert [tool.name for tool in chat.built.agents["A"].tools] == ["save"]
    assert kept.turn(1).events == [{"text": json.dumps(SAY), "tool_calls": []}]


async def test_several_are_called_in_the_order_of_the_file(tmp_path: Path) -> None:
    first = "async def first(refund, context_variables=None):\n    context_variables['trail'] = ['first']\n"
    second = "def second(context_variables):\n    context_variables['trail'].append('second')\n"
    _, kept = await automatic(tmp_path / "p", first, second).run()

    assert [name for name, _, _ in calls(kept)] == ["first", "second"]
    assert kept.context(1)["trail"] == ["first", "second"]


async def test_what_one_makes_of_its_arguments_is_its_own(tmp_path: Path) -> None:
    sources = [f"def {name}(lines):\n    lines.append('more')\n    return lines\n" for name in ("first", "second")]
    _, kept = await automatic(tmp_path / "p", *sources, fields={"lines": "any"}, says={"lines": ["one"]}).run()

    assert [(given, told) for _, given, told in calls(kept)] == [({"lines": ["one"]}, '["one", "more"]')] * 2


WHOLE = """
def whole(context_variables):
    reply = context_variables.get("structured_output")
    context_variables["seen"] = dict(reply)
    reply["refund"] = "changed"
"""


@pytest.mark.parametrize("before", [{}, {"structured_output": "mine"}])
async def test_a_tool_finds_the_whole_reply_among_the_variables_while_it_runs(tmp_path: Path, before: Any) -> None:
    again = WHOLE.replace("whole", "again").replace("seen", "seen_again")
    _, kept = await automatic(tmp_path / "p", WHOLE, again, context=before).run()

    assert kept.context(1)["seen"] == kept.context(1)["seen_again"] == SAY
    assert kept.context(1).get("structured_output") == before.get("structured_output")


async def test_a_tool_gets_the_identity_of_its_run(tmp_path: Path) -> None:
    source = """
def told(turn_idempotency_key, agent_name, app_id, enterprise_id, workflow_name, chat_id, **runtime):
    return [turn_idempotency_key, agent_name, app_id, enterprise_id, workflow_name, chat_id, sorted(runtime)]
"""
    fixed = {"run_id": "run_1", "app_id": "acme", "chat_id": "c", "user_id": "u"}
    says = {**SAY, "app_id": "of somebody else"}
    _, kept = await automatic(tmp_path / "p", source, says=says, fields={**FIELDS, "app_id": "str"}, fixed=fixed).run()

    (_, arguments, text), *_ = calls(kept)
    assert arguments == {}
    assert json.loads(text)[:6] == ["run_1:1", "A", "acme", "acme", "Small", "c"]


MATCHES: list[tuple[dict[str, str], Any, str, Any]] = [
    ({"PhasePlan": "dict"}, {"PhasePlan": {"a": 1}}, "phase_plan", {"phase_plan": {"a": 1}}),
    ({"phase_plan": "any"}, {"phase_plan": [1]}, "PhasePlan: list", {"PhasePlan": [1]}),
    ({"a_b": "int", "ab": "int"}, {"a_b": 1, "ab": 2}, "ab, a_b", {"a_b": 1, "ab": 2}),
    ({"a_b": "int", "aB": "int"}, {"a_b": 1, "aB": 2}, "ab: int", {"ab": 1}),
    ({"verdict": "dict"}, {"verdict": {"refund": True}}, "refund: bool", {"refund": True}),
    ({"verdict": "dict"}, {"verdict": {"refund": True}}, "verdict: dict, refund=None", {"verdict": {"refund": True}}),
    ({"verdict": "dict", "note": "str"}, {"verdict": {"n": 1}, "note": "x"}, "n, note", {"n": 1, "note": "x"}),
    ({"verdict": "dict", "note": "str"}, {"verdict": {"note": "in"}, "note": "out"}, "note", {"note": "out"}),
    ({"a": "dict", "b": "dict"}, {"a": {"n": 1}, "b": {"n": 2}}, "n=0", {}),
    ({"note": "optional_str", "n": "int"}, {"note": None, "n": 1}, "n: int, note: str = 'none'", {"n": 1}),
    ({"note": "optional_str"}, {"note": None}, "note: str | None", {"note": None}),
    ({"x": "int"}, {"x": 1}, "other=None", {}),
]


@pytest.mark.design("D4-2")
@pytest.mark.parametrize(("fields", "says", "parameters", "arguments"), MATCHES)
async def test_arguments_are_found_by_their_words(
    tmp_path: Path, fields: dict[str, str], says: Any, parameters: str, arguments: Any
) -> None:
    source = f"def take({parameters}, **_):\n    return 'ok'\n"
    outcome, kept = await automatic(tmp_path / "p", source, fields=fields, says=says).run()

    assert outcome.kind is OutcomeKind.COMPLETED, outcome
    assert calls(kept) == [("take", arguments, "ok")]


FAILING: list[tuple[str, Any, tuple[str, ...]]] = [
    ("def f(amount): ...", {}, ("the automatic tool f needs amount", "the reply of A has refund, order_id")),
    ("def f(refund: list): ...", {}, ("the automatic tool f of agent A failed in turn 1", "refund: Input should be")),
    (
        "def f():\n    raise ValueError('no ledger')",
        {},
        ("f of agent A failed in turn 1: ValueError: no ledger (tools/t0.py:2, in f)",),
    ),
    ("async def f():\n    import asyncio\n    raise asyncio.CancelledError", {}, ("it cancelled itself",)),
    ("def f():\n    raise SystemExit(3)", {}, ("SystemExit: 3",)),
    ("async def f():\n    import asyncio\n    await asyncio.sleep(9)", {"timeout_s": 0.01}, ("f of agent A failed",)),
]


@pytest.mark.parametrize(("source", "options", "words"), FAILING)
async def test_a_failing_tool_ends_the_chat_with_its_reason(
    tmp_path: Path, source: str, options: Any, words: tuple[str, ...]
) -> None:
    chat = automatic(tmp_path / "p", source)
    if options:
        [tool] = chat.built.auto_tools["A"]
        object.__setattr__(tool, "timeout_s", options["timeout_s"])
    outcome, kept = await chat.run()

    assert outcome.kind is OutcomeKind.TOOL_ERROR
    assert [each for each in words if each not in outcome.reason] == []
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.agent, outcome.error.turn) == ("StepFailed", "A", 1)
    assert outcome.error.tool == (None if "needs amount" in outcome.reason else "f")
    assert kept.turns == []


async def test_the_traceback_of_one_that_fails_is_in_the_record(tmp_path: Path) -> None:
    chat = automatic(tmp_path / "p", "def f():\n    raise ValueError('no ledger')\n")
    await chat.run()

    assert chat.last is not None
    [incident] = chat.last.incidents
    assert (incident.where, incident.agent, incident.turn) == ("tool f", "A", 1)
    assert "t0.py" in incident.traceback


async def test_the_tool_after_one_that_fails_is_not_called(tmp_path: Path) -> None:
    mark = tmp_path / "called"
    outcome, _ = await automatic(
        tmp_path / "p", "def f():\n    1 / 0\n", f"def g():\n    open({str(mark)!r}, 'w').close()\n"
    ).run()

    assert outcome.kind is OutcomeKind.TOOL_ERROR
    assert not mark.exists()


async def test_they_count_as_tool_calls(tmp_path: Path) -> None:
    chat = automatic(tmp_path / "p", SAVE, "def more(): ...")
    await chat.run()
    assert chat.last is not None
    assert chat.last.counters.tool_calls == 2

    object.__setattr__(chat.built.package.orchestrator.limits, "tool_calls", 1)
    outcome, kept = await chat.run()
    assert outcome.kind is OutcomeKind.LOOP_DETECTED
    assert kept.turns == []


async def test_a_reply_that_hands_over_calls_nothing(tmp_path: Path) -> None:
    rules = [rule("A", "B", "When nothing is known", condition_type="string_llm"), *BY_DECISION]
    chat = automatic(tmp_path / "p", SAVE, rules=rules)
    folder = tmp_path / "p"
    answers = {"answers": {"A": [{"tool_calls": [{"name": "transfer_to_B"}]}]}, "default": {"text": "Well."}}
    _, kept = await Chat(build_chat(chat.built.package, answers, folder)).run()

    assert kept.speakers == ["A", "B"]
    assert kept.turn(1).events == []


async def test_a_variable_is_derived_from_what_it_answers(tmp_path: Path) -> None:
    trigger = {"type": "tool_response", "tool": "save", "response_key": "saved"}
    variables = {
        "decided": {"type": "boolean", "source": {"type": "state"}},
        "saved": {"type": "string", "source": {"type": "state", "transitions": [{"trigger": trigger}]}},
    }
    _, kept = await automatic(tmp_path / "p", SAVE, variables=variables).run()

    assert kept.context(1)["saved"] == "7"


async def test_a_tool_for_people_ends_the_run_unless_the_trigger_answers(tmp_path: Path) -> None:
    source = "def ask(refund, context_variables):\n    return {'shown': refund}\n"
    outcome, kept = await automatic(tmp_path / "p", source, tool={"tool_type": "UI_Tool"}).run()
    assert outcome.kind is OutcomeKind.NEEDS_HUMAN
    assert kept.turns == []

    answered = automatic(tmp_path / "q", source, tool={"tool_type": "UI_Tool"}, ui_responses={"ask": {"choice": "yes"}})
    outcome, kept = await answered.run()
    assert outcome.kind is OutcomeKind.COMPLETED, outcome
    assert [name for name, _, _ in calls(kept)] == ["ask"]


STAY = [rule("A", "A")]
NO = {"refund": False, "order_id": "8"}


async def test_a_chat_goes_on_from_the_checkpoint_after_it(tmp_path: Path) -> None:
    chat = automatic(tmp_path / "p", SAVE, says=[SAY, NO], rules=STAY)
    kept = ChatRecorder()
    for _ in range(2):
        stops = iter([False, True])
        await chat.run(kept, stopping=stops.__next__)

    assert calls(kept, 1) == [("save", {"refund": True, "OrderId": "7"}, '{"saved": "7"}')]
    assert calls(kept, 2) == [("save", {"refund": False, "OrderId": "8"}, '{"saved": "8"}')]
    ids = [call["id"] for turn in kept.turns for event in turn.events for call in event.get("tool_calls", ())]
    assert len(ids) == len(set(ids)) == 2


async def test_the_agent_sees_the_results_and_no_call_of_its_own(tmp_path: Path) -> None:
    stops = iter([False, True])
    _, kept = await automatic(tmp_path / "p", SAVE, rules=STAY).run(stopping=lambda: next(stops))
    messages = build_messages("A", "Begin.", kept.turns)

    assert messages == [
        {"role": "user", "name": "user", "content": "Begin."},
        {"role": "assistant", "name": "A", "content": json.dumps(SAY)},
        {"role": "user", "name": "save", "content": '{"saved": "7"}'},
    ]
    assert to_history(messages)[1] == '[save]: {"saved": "7"}'
    assert build_messages("B", "Begin.", kept.turns)[1:] == [{"role": "user", "name": "A", "content": json.dumps(SAY)}]


async def test_what_it_returns_is_cut_and_hidden_values_are_taken_out(tmp_path: Path) -> None:
    chat = automatic(tmp_path / "p", "def big():\n    return 's3cr3t-value' + 'x' * 200_000\n")
    chat.redactor = Redactor(["s3cr3t-value"])
    _, kept = await chat.run()

    [(_, _, text)] = calls(kept)
    assert text.startswith("(hidden)xxx")
    assert text.endswith("characters)")
    assert len(text) < 100_100
