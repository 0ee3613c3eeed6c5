"""Observers: each trigger type is read from a package and fires on nothing else."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import workflows.context.observers
from workflows.context.expressions.text_patterns import is_exponential
from workflows.context.observers.agent_text import AgentTextTrigger
from workflows.context.observers.registry import trigger_types
from workflows.context.state.state_transitions import (
    HandoffEvent,
    LifecycleEvent,
    ObservedToolResult,
    StateTrigger,
    TriggerMatch,
    TurnObservation,
)
from workflows.package.findings import Finding, Findings
from workflows.package.readers.section import Section


def read(**written: Any) -> tuple[StateTrigger | None, list[Finding]]:
    findings = Findings()
    section = Section(written, file="f", path="t", findings=findings)
    section.get("type")
    trigger = trigger_types()[written["type"]](section)
    section.report_unread()
    return trigger, list(findings.all)


def turn_with_result(value: Any, *, tool: str = "t", ok: bool = True) -> TurnObservation:
    return TurnObservation("A", "", (ObservedToolResult(tool, value, ok),))


def turn_with_answer(answer: dict[str, Any], *, tool: str = "t") -> TurnObservation:
    return TurnObservation("A", "", ui_answers=((tool, answer),))


def turn_with_counts(**turns: int) -> TurnObservation:
    return TurnObservation("B", "", turns_by_agent=turns)


def turn_at_moment(moment: str, agent: str | None = None) -> TurnObservation:
    return TurnObservation("", "", moment=LifecycleEvent(moment, agent))


def turn_with_handoff(source: str, target: str) -> TurnObservation:
    return TurnObservation("", "", handoff=HandoffEvent(source, target))


OK: dict[str, Any] = {"type": "tool_response", "tool": "t"}
UI: dict[str, Any] = {"type": "ui_response", "tool": "t", "response_key": "k"}
EXAMPLES: list[tuple[dict[str, Any], TurnObservation, Any, list[TurnObservation]]] = [
    (
        {"type": "agent_text", "agent": "A", "match": {"equals": "NEXT"}, "ui_hidden": True},
        TurnObservation("A", " next\n"),
        True,
        [TurnObservation("A", "next."), TurnObservation("B", "NEXT")],
    ),
    (
        {"type": "user_text", "match": {"regex": "^(yes|no)$"}},
        TurnObservation("user", "Yes"),
        True,
        [TurnObservation("user", "yes, but"), TurnObservation("A", "yes")],
    ),
    (
        UI,
        turn_with_result({"k": "yes"}),
        "yes",
        [turn_with_result({"l": 1}), turn_with_result("k"), turn_with_result({"k": 1}, tool="u")],
    ),
    (
        {**UI, "match": {"equals": "yes"}},
        turn_with_result({"k": " YES "}),
        " YES ",
        [
            turn_with_result({"k": "no"}),
            turn_with_result({"k": "yes, but"}),
            turn_with_result({"k": None}),
            turn_with_result({"k": {"a": "yes"}}),
        ],
    ),
    (
        {**UI, "match": {"in": ["yes", 7]}},
        turn_with_result({"k": 7}),
        7,
        [turn_with_result({"k": "7"}), turn_with_result({"k": True})],
    ),
    (
        {**UI, "match": {"equals": True}},
        turn_with_result({"k": "yes"}),
        "yes",
        [turn_with_result({"k": "no"}), turn_with_result({"k": 1})],
    ),
    (
        {**UI, "match": {"any": True}},
        turn_with_result({"k": False}),
        False,
        [turn_with_result({"l": 1}), turn_with_result({})],
    ),
    ({**UI, "match": {"equals": None, "in": None}}, turn_with_result({"k": "x"}), "x", [turn_with_result({})]),
    (
        {**UI, "match": {"equals": None}},
        turn_with_result({"k": None}),
        None,
        [turn_with_result({"k": 0}), turn_with_result({"k": False})],
    ),
    (
        {"type": "ui_response", "tool": "t"},
        turn_with_answer({"k": "no"}),
        True,
        [turn_with_result({"k": "no"}), turn_with_answer({}, tool="u")],
    ),
    (
        {"type": "ui_response", "tool": "t", "match": {"equals": {"k": "yes"}}},
        turn_with_answer({"k": "yes"}),
        True,
        [turn_with_answer({"k": "no"}), turn_with_answer({})],
    ),
    ({**OK, "match": {"any": True}}, turn_with_result("x"), True, [turn_with_result("x", ok=False)]),
    (
        {**OK, "response_key": "k", "match": {"in": ["a", "b"]}},
        turn_with_result({"k": "B"}),
        "B",
        [turn_with_result({"k": "c"})],
    ),
    (UI, turn_with_result({"k": None}), None, [turn_with_result({"k": 1}, ok=False), TurnObservation("A", "k")]),
    (
        {"type": "agent_turn_count", "agent": "A", "count": 3},
        turn_with_counts(A=3, B=1),
        True,
        [turn_with_counts(A=2, B=9), turn_with_counts()],
    ),
    ({"type": "agent_turn_count", "agent": "A", "turns": 2}, turn_with_counts(A=5), True, [turn_with_counts(A=1)]),
    ({"type": "agent_turn_count", "agent": "A", "n": 1}, turn_with_counts(A=1), True, [turn_with_counts(B=1)]),
    (
        OK,
        turn_with_result("done"),
        True,
        [turn_with_result("x", ok=False), turn_with_result("x", tool="u"), TurnObservation("A", "t")],
    ),
    ({**OK, "status": "error"}, turn_with_result("x", ok=False), True, [turn_with_result("x")]),
    ({**OK, "status": "any"}, turn_with_result("x", ok=False), True, [turn_with_result("x", tool="u")]),
    (
        {**OK, "response_key": "k"},
        turn_with_result({"k": {"a": 1}}),
        {"a": 1},
        [turn_with_result({"l": 1}), turn_with_result("k")],
    ),
    (
        {**OK, "response_key": "k", "match": {"equals": "Paid"}},
        turn_with_result({"k": " PAID "}),
        " PAID ",
        [turn_with_result({"k": "paid not"}), turn_with_result({"k": True})],
    ),
    (
        {**OK, "match": {"equals": 1}},
        turn_with_result(1),
        True,
        [turn_with_result(True), turn_with_result("1"), turn_with_result(2)],
    ),
    (
        {**OK, "response_key": "k", "match": {"equals": None}},
        turn_with_result({"k": None}),
        None,
        [turn_with_result({"k": 0})],
    ),
    (
        {"type": "tool_call", "tool": "t"},
        TurnObservation("A", "", tool_calls=("u", "t")),
        True,
        [TurnObservation("A", "t", tool_calls=("u",)), turn_with_result("x"), turn_at_moment("before_chat")],
    ),
    (
        {"type": "tool_call", "tool": "t", "agent": "A"},
        TurnObservation("A", "", tool_calls=("t",)),
        True,
        [TurnObservation("B", "", tool_calls=("t",)), TurnObservation("A", "")],
    ),
    (
        {"type": "lifecycle", "event": "workflow_start"},
        turn_at_moment("on_start"),
        True,
        [
            turn_at_moment("before_chat"),
            turn_at_moment("before_agent", "A"),
            TurnObservation("A", "on_start"),
            turn_with_handoff("A", "B"),
        ],
    ),
    (
        {"type": "lifecycle", "event": "after_agent", "agent": "A"},
        replace(TurnObservation("A", "x"), moment=LifecycleEvent("after_agent", "A")),
        True,
        [turn_at_moment("after_agent", "B"), turn_at_moment("before_agent", "A"), TurnObservation("A", "x")],
    ),
    (
        {"type": "handoff", "to": "human"},
        turn_with_handoff("B", "user"),
        True,
        [
            turn_with_handoff("B", "A"),
            turn_with_handoff("user", "B"),
            TurnObservation("user", "x"),
            turn_at_moment("before_chat"),
        ],
    ),
    (
        {"type": "handoff", "source_agent": "user", "target_agent": "end"},
        turn_with_handoff("user", "terminate"),
        True,
        [turn_with_handoff("A", "terminate"), turn_with_handoff("user", "A")],
    ),
    (
        {"type": "timer_expired", "after": "2m"},
        TurnObservation("A", "", elapsed_s=120.0),
        True,
        [TurnObservation("A", "", elapsed_s=119.9)],
    ),
]


@pytest.mark.design("D1-71", "D1-72", "D1-73", "D2-17", "D2-18", "D4-44")
@pytest.mark.parametrize(("written", "turn", "value", "others"), EXAMPLES)
def test_a_trigger_fires_on_what_it_waits_for_and_on_nothing_else(
    written: dict[str, Any], turn: TurnObservation, value: Any, others: list[TurnObservation]
) -> None:
    trigger, findings = read(**written)

    assert findings == []
    assert trigger is not None
    assert trigger.type == written["type"]
    fired = trigger.fires(turn)
    assert fired is not None
    assert fired.value == value
    assert [trigger.fires(other) for other in others] == [None] * len(others)


def test_the_last_answer_of_a_turn_counts_and_no_earlier_one_that_fits() -> None:
    trigger, _ = read(**UI, match={"equals": "yes"})
    assert trigger is not None
    twice = TurnObservation("A", "", ui_answers=(("t", {"k": "yes"}), ("t", {"k": "no"})))
    reversed_ = TurnObservation("A", "", ui_answers=tuple(reversed(twice.ui_answers)))

    assert trigger.fires(twice) is None
    assert trigger.fires(reversed_) == TriggerMatch("yes")


@pytest.mark.design("D2-14")
def test_every_registered_type_has_an_example() -> None:
    assert {written["type"] for written, *_ in EXAMPLES} == set(trigger_types())


@pytest.mark.parametrize(
    ("written", "code", "path"),
    [
        ({"type": "agent_text", "match": {"equals": "x"}}, "missing_field", "t.agent"),
        ({"type": "agent_text", "agent": "A"}, "wrong_value", "t.match"),
        ({"type": "agent_text", "agent": "A", "match": {"regex": "("}}, "wrong_value", "t.match.regex"),
        ({"type": "agent_text", "agent": "A", "match": {"regex": r"\Qx"}}, "wrong_value", "t.match.regex"),
        ({"type": "agent_text", "agent": "A", "match": {"regex": "x" * 2_000}}, "wrong_value", "t.match.regex"),
        ({"type": "agent_text", "agent": "A", "match": {"regex": "(a+)+b"}}, "slow_pattern", "t.match.regex"),
        ({"type": "agent_text", "agent": "A", "match": {"equals": "x", "case": True}}, "not_executed", "t.match.case"),
        ({"type": "ui_response"}, "missing_field", "t.tool"),
        ({**UI, "match": {"contains": "x"}}, "wrong_value", "t.match"),
        ({**UI, "match": {"contains": "x"}}, "not_executed", "t.match.contains"),
        ({**UI, "match": {"equals": "x", "any": True}}, "wrong_value", "t.match"),
        ({**UI, "match": {"equals": "x", "in": None, "regex": "x"}}, "not_executed", "t.match.regex"),
        ({**UI, "match": {"any": False}}, "wrong_value", "t.match.any"),
        ({**UI, "match": {"in": "yes"}}, "wrong_value", "t.match.in"),
        ({**UI, "match": {"in": []}}, "wrong_value", "t.match.in"),
        ({**UI, "match": "yes"}, "wrong_type", "t.match"),
        ({"type": "agent_turn_count", "agent": "A"}, "missing_field", "t.count"),
        ({"type": "agent_turn_count", "agent": "A", "count": 0}, "wrong_value", "t.count"),
        ({"type": "agent_turn_count", "agent": "A", "count": "3"}, "wrong_type", "t.count"),
        ({**OK, "status": "late"}, "wrong_value", "t.status"),
        ({**OK, "status": "error", "response_key": "k"}, "never_fires", "t.response_key"),
        ({**OK, "match": {"regex": "x"}}, "wrong_value", "t.match"),
        ({"type": "tool_call", "agent": "A"}, "missing_field", "t.tool"),
        ({"type": "lifecycle"}, "missing_field", "t.event"),
        ({"type": "lifecycle", "event": "before_lunch"}, "wrong_value", "t.event"),
        ({"type": "lifecycle", "event": "on_fail", "agent": "A"}, "not_executed", "t.agent"),
        ({"type": "handoff", "from": "A"}, "missing_field", "t.to"),
        ({"type": "handoff", "to": " "}, "missing_field", "t.to"),
        ({"type": "handoff", "from": "terminate", "to": "A"}, "wrong_value", "t.from"),
        ({"type": "timer_expired"}, "missing_field", "t.after"),
        ({"type": "timer_expired", "after": "soon"}, "wrong_value", "t.after"),
        ({"type": "timer_expired", "after": 0}, "wrong_value", "t.after"),
        ({"type": "timer_expired", "after": 10**400}, "wrong_value", "t.after"),
    ],
)
def test_a_fault_of_a_trigger_is_found_where_it_is(written: dict[str, Any], code: str, path: str) -> None:
    _, findings = read(**written)

    assert (code, path) in {(each.code, each.path) for each in findings}


@pytest.mark.design("D1-11", "D1-35", "D2-10", "D2-12")
@pytest.mark.parametrize(
    ("trigger", "text", "expected"),
    [
        (AgentTextTrigger("A", equals="NEXT"), "  next\n", True),
        (AgentTextTrigger("A", equals=" next "), "NEXT", True),
        (AgentTextTrigger("A", equals="NEXT"), "NEXT.", False),
        (AgentTextTrigger("A", contains="Follow Up"), "we should FOLLOW UP today", True),
        (AgentTextTrigger("A", contains="follow up"), "follow  up", False),
        (AgentTextTrigger("A", regex=r"(?m)^\s*NEXT\s*$"), "all read\n next \n", True),
        (AgentTextTrigger("A", regex=r"^NEXT"), "then NEXT", False),
        (AgentTextTrigger("A", regex=r"\bapproved?\b"), "I APPROVE", True),
    ],
)
def test_what_a_text_matches(trigger: AgentTextTrigger, text: str, expected: bool) -> None:
    assert (trigger.fires(TurnObservation("A", text)) is not None) is expected


@pytest.mark.design("D1-11", "D2-12", "D2-19")
def test_a_pattern_that_backtracks_without_end_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    trigger = AgentTextTrigger("A", regex="^(a|aa)+$")

    assert trigger.fires(TurnObservation("A", "a" * 60 + "!")) is None
    assert [record.message for record in caplog.records] == ["pattern_timed_out"]


@pytest.mark.parametrize("pattern", ["(a+)+", "(?:a*)*b", r"^(\s*\w+)*$", "x(?:(a+))+?y", "(a*b?)*", "b|((c+)*)"])
def test_a_repetition_of_nothing_but_a_repetition_is_slow(pattern: str) -> None:
    assert is_exponential(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?m)^\s*NEXT\s*$",
        r"(?i)\b(approved?|looks good)\b",
        r"(\w+,)*",
        r"(a|b)+",
        r"(?:\d+\.)+\d+",
        "a+b+",
        "(ab?)+",
        "(" * 450 + "a" + ")" * 450,
    ],
)
def test_an_ordinary_pattern_is_not(pattern: str) -> None:
    assert not is_exponential(pattern)


DROPPED_IN = """
from dataclasses import dataclass
from workflows.context.state.state_transitions import TriggerMatch

@dataclass(frozen=True)
class LongText:
    characters: int
    type: str = "long_text"

    def fires(self, turn):
        return TriggerMatch(len(turn.text)) if len(turn.text) >= self.characters else None

def read(section):
    return LongText(section.integer("characters", default=10))
"""


@pytest.fixture
def fresh_registry() -> Iterator[None]:
    trigger_types.cache_clear()
    yield
    trigger_types.cache_clear()


@pytest.mark.design("D1-77", "D2-14")
@pytest.mark.usefixtures("fresh_registry")
def test_a_new_type_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "long_text.py").write_text(DROPPED_IN)
    monkeypatch.setattr(workflows.context.observers, "__path__", [*workflows.context.observers.__path__, str(tmp_path)])

    trigger, findings = read(type="long_text", characters=3)

    assert findings == []
    assert trigger is not None
    assert trigger.fires(TurnObservation("A", "12")) is None
    fired = trigger.fires(TurnObservation("A", "1234"))
    assert fired is not None
    assert fired.value == 4
