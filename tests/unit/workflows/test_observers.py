"""Observers: every type of trigger is read from a package, and fires on what it waits for and on nothing else."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import workflows.context.observers
from workflows.context.observers.agent_text import AgentText
from workflows.context.observers.registry import trigger_types
from workflows.context.observing import Fired, PassedMoment, TakenHandoff, ToolResult, Trigger, TurnSeen
from workflows.context.patterns import is_slow
from workflows.package.findings import Finding, Findings
from workflows.package.reading.section import Section


def read(**written: Any) -> tuple[Trigger | None, list[Finding]]:
    findings = Findings()
    section = Section(written, file="f", path="t", findings=findings)
    section.get("type")
    trigger = trigger_types()[written["type"]](section)
    section.report_rest()
    return trigger, list(findings.all)


def answered(value: Any, *, tool: str = "t", ok: bool = True) -> TurnSeen:
    return TurnSeen("A", "", (ToolResult(tool, value, ok),))


def asked(answer: dict[str, Any], *, tool: str = "t") -> TurnSeen:
    return TurnSeen("A", "", ui_answers=((tool, answer),))


def counted(**turns: int) -> TurnSeen:
    return TurnSeen("B", "", turns_by_agent=turns)


def passed(moment: str, agent: str | None = None) -> TurnSeen:
    return TurnSeen("", "", moment=PassedMoment(moment, agent))


def handed(source: str, target: str) -> TurnSeen:
    return TurnSeen("", "", handoff=TakenHandoff(source, target))


OK: dict[str, Any] = {"type": "tool_response", "tool": "t"}
UI: dict[str, Any] = {"type": "ui_response", "tool": "t", "response_key": "k"}
EXAMPLES: list[tuple[dict[str, Any], TurnSeen, Any, list[TurnSeen]]] = [
    (
        {"type": "agent_text", "agent": "A", "match": {"equals": "NEXT"}, "ui_hidden": True},
        TurnSeen("A", " next\n"),
        True,
        [TurnSeen("A", "next."), TurnSeen("B", "NEXT")],
    ),
    (
        {"type": "user_text", "match": {"regex": "^(yes|no)$"}},
        TurnSeen("user", "Yes"),
        True,
        [TurnSeen("user", "yes, but"), TurnSeen("A", "yes")],
    ),
    (UI, answered({"k": "yes"}), "yes", [answered({"l": 1}), answered("k"), answered({"k": 1}, tool="u")]),
    (
        {**UI, "match": {"equals": "yes"}},
        answered({"k": " YES "}),
        " YES ",
        [answered({"k": "no"}), answered({"k": "yes, but"}), answered({"k": None}), answered({"k": {"a": "yes"}})],
    ),
    ({**UI, "match": {"in": ["yes", 7]}}, answered({"k": 7}), 7, [answered({"k": "7"}), answered({"k": True})]),
    ({**UI, "match": {"equals": True}}, answered({"k": "yes"}), "yes", [answered({"k": "no"}), answered({"k": 1})]),
    ({**UI, "match": {"any": True}}, answered({"k": False}), False, [answered({"l": 1}), answered({})]),
    ({**UI, "match": {"equals": None, "in": None}}, answered({"k": "x"}), "x", [answered({})]),
    ({**UI, "match": {"equals": None}}, answered({"k": None}), None, [answered({"k": 0}), answered({"k": False})]),
    ({"type": "ui_response", "tool": "t"}, asked({"k": "no"}), True, [answered({"k": "no"}), asked({}, tool="u")]),
    (
        {"type": "ui_response", "tool": "t", "match": {"equals": {"k": "yes"}}},
        asked({"k": "yes"}),
        True,
        [asked({"k": "no"}), asked({})],
    ),
    ({**OK, "match": {"any": True}}, answered("x"), True, [answered("x", ok=False)]),
    ({**OK, "response_key": "k", "match": {"in": ["a", "b"]}}, answered({"k": "B"}), "B", [answered({"k": "c"})]),
    (UI, answered({"k": None}), None, [answered({"k": 1}, ok=False), TurnSeen("A", "k")]),
    ({"type": "agent_turn_count", "agent": "A", "count": 3}, counted(A=3, B=1), True, [counted(A=2, B=9), counted()]),
    ({"type": "agent_turn_count", "agent": "A", "turns": 2}, counted(A=5), True, [counted(A=1)]),
    ({"type": "agent_turn_count", "agent": "A", "n": 1}, counted(A=1), True, [counted(B=1)]),
    (OK, answered("done"), True, [answered("x", ok=False), answered("x", tool="u"), TurnSeen("A", "t")]),
    ({**OK, "status": "error"}, answered("x", ok=False), True, [answered("x")]),
    ({**OK, "status": "any"}, answered("x", ok=False), True, [answered("x", tool="u")]),
    ({**OK, "response_key": "k"}, answered({"k": {"a": 1}}), {"a": 1}, [answered({"l": 1}), answered("k")]),
    (
        {**OK, "response_key": "k", "match": {"equals": "Paid"}},
        answered({"k": " PAID "}),
        " PAID ",
        [answered({"k": "paid not"}), answered({"k": True})],
    ),
    ({**OK, "match": {"equals": 1}}, answered(1), True, [answered(True), answered("1"), answered(2)]),
    ({**OK, "response_key": "k", "match": {"equals": None}}, answered({"k": None}), None, [answered({"k": 0})]),
    (
        {"type": "tool_call", "tool": "t"},
        TurnSeen("A", "", tool_calls=("u", "t")),
        True,
        [TurnSeen("A", "t", tool_calls=("u",)), answered("x"), passed("before_chat")],
    ),
    (
        {"type": "tool_call", "tool": "t", "agent": "A"},
        TurnSeen("A", "", tool_calls=("t",)),
        True,
        [TurnSeen("B", "", tool_calls=("t",)), TurnSeen("A", "")],
    ),
    (
        {"type": "lifecycle", "event": "workflow_start"},
        passed("on_start"),
        True,
        [passed("before_chat"), passed("before_agent", "A"), TurnSeen("A", "on_start"), handed("A", "B")],
    ),
    (
        {"type": "lifecycle", "event": "after_agent", "agent": "A"},
        replace(TurnSeen("A", "x"), moment=PassedMoment("after_agent", "A")),
        True,
        [passed("after_agent", "B"), passed("before_agent", "A"), TurnSeen("A", "x")],
    ),
    (
        {"type": "handoff", "to": "human"},
        handed("B", "user"),
        True,
        [handed("B", "A"), handed("user", "B"), TurnSeen("user", "x"), passed("before_chat")],
    ),
    (
        {"type": "handoff", "source_agent": "user", "target_agent": "end"},
        handed("user", "terminate"),
        True,
        [handed("A", "terminate"), handed("user", "A")],
    ),
    (
        {"type": "timer_expired", "after": "2m"},
        TurnSeen("A", "", elapsed_s=120.0),
        True,
        [TurnSeen("A", "", elapsed_s=119.9)],
    ),
]


@pytest.mark.design("D1-71", "D1-72", "D1-73", "D2-17", "D2-18", "D4-44")
@pytest.mark.parametrize(("written", "turn", "value", "others"), EXAMPLES)
def test_a_trigger_fires_on_what_it_waits_for_and_on_nothing_else(
    written: dict[str, Any], turn: TurnSeen, value: Any, others: list[TurnSeen]
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
    twice = TurnSeen("A", "", ui_answers=(("t", {"k": "yes"}), ("t", {"k": "no"})))
    reversed_ = TurnSeen("A", "", ui_answers=tuple(reversed(twice.ui_answers)))

    assert trigger.fires(twice) is None
    assert trigger.fires(reversed_) == Fired("yes")


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
        (AgentText("A", equals="NEXT"), "  next\n", True),
        (AgentText("A", equals=" next "), "NEXT", True),
        (AgentText("A", equals="NEXT"), "NEXT.", False),
        (AgentText("A", contains="Follow Up"), "we should FOLLOW UP today", True),
        (AgentText("A", contains="follow up"), "follow  up", False),
        (AgentText("A", regex=r"(?m)^\s*NEXT\s*$"), "all read\n next \n", True),
        (AgentText("A", regex=r"^NEXT"), "then NEXT", False),
        (AgentText("A", regex=r"\bapproved?\b"), "I APPROVE", True),
    ],
)
def test_what_a_text_matches(trigger: AgentText, text: str, expected: bool) -> None:
    assert (trigger.fires(TurnSeen("A", text)) is not None) is expected


@pytest.mark.design("D1-11", "D2-12", "D2-19")
def test_a_pattern_that_backtracks_without_end_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    trigger = AgentText("A", regex="^(a|aa)+$")

    assert trigger.fires(TurnSeen("A", "a" * 60 + "!")) is None
    assert [record.message for record in caplog.records] == ["pattern_timed_out"]


@pytest.mark.parametrize("pattern", ["(a+)+", "(?:a*)*b", r"^(\s*\w+)*$", "x(?:(a+))+?y", "(a*b?)*", "b|((c+)*)"])
def test_a_repetition_of_nothing_but_a_repetition_is_slow(pattern: str) -> None:
    assert is_slow(pattern)


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
    assert not is_slow(pattern)


DROPPED_IN = """
from dataclasses import dataclass
from workflows.context.observing import Fired

@dataclass(frozen=True)
class LongText:
    characters: int
    type: str = "long_text"

    def fires(self, turn):
        return Fired(len(turn.text)) if len(turn.text) >= self.characters else None

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
    assert trigger.fires(TurnSeen("A", "12")) is None
    fired = trigger.fires(TurnSeen("A", "1234"))
    assert fired is not None
    assert fired.value == 4
