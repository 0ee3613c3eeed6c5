"""Checks of state machines."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.normal_form import (
    FindingKey,
    H,
    V,
    findings_after_an_error,
    findings_of,
    messages,
    package,
    rules,
    tool,
    variables,
)
from workflows.context.observers.agent_text import AgentTextTrigger
from workflows.context.state.state_transitions import UNSET, Transition, TriggerMatch, TurnObservation
from workflows.package.normal_form.package_model import Hook, LifecycleTool, Package
from workflows.package.normal_form.variable_sources import StateSource

AT_V = (V, "definitions.v")
AT_RULE = ("warning", "waits_for_ever", H, "handoff_rules[0]")


@dataclass(frozen=True, slots=True)
class WatchedTrigger:
    """A trigger of any type, with only the names that it waits for."""

    type: str
    agent: str | None = None
    tool: str | None = None
    response_key: str | None = None

    def fires(self, turn: TurnObservation) -> TriggerMatch | None:
        return TriggerMatch() if turn.agent == self.agent else None


TEXT_TRIGGERS = AgentTextTrigger("A", equals="NEXT")
ENDS = AgentTextTrigger("A", equals="END")
KEYED = WatchedTrigger("tool_response", tool="save", response_key="state")
SHOWN = WatchedTrigger("ui_response", tool="form_id", response_key="state")
ANSWERS = WatchedTrigger("tool_response", tool="save")
HOOK = Hook("update_agent_state", "A", Path("h.py"), "h")
BEFORE = LifecycleTool("before_chat", None, Path("t.py"), "t")


def machine(*transitions: Transition, default: Any = "new", enum: tuple[Any, ...] = (), **parts: Any) -> Package:
    one = variables(v=StateSource(transitions))
    return package(variables={"v": replace(one["v"], default=default, enum=enum)}, **parts)


def package_comparing(condition: str, *transitions: Transition, **parts: Any) -> Package:
    return machine(*transitions, rules=rules(f"A > B if {condition}", "A > B", "B > terminate"), **parts)


@pytest.mark.design("D2-9", "D4-99")
@pytest.mark.parametrize(
    ("checked", "finding"),
    [
        (machine(Transition(TEXT_TRIGGERS, to="b", from_="a")), ("warning", "orphan_state", *AT_V)),
        (machine(Transition(TEXT_TRIGGERS, from_="a")), ("warning", "orphan_state", *AT_V)),
        (machine(Transition(TEXT_TRIGGERS, to=1, from_=True), default=1), ("warning", "orphan_state", *AT_V)),
        (machine(Transition(AgentTextTrigger("C", equals="x"))), ("error", "unknown_agent", *AT_V)),
        (machine(Transition(ANSWERS)), ("error", "unknown_tool", *AT_V)),
        (
            machine(Transition(ANSWERS), tools=(replace(tool("other"), file=Path("save.py")),)),
            ("warning", "unknown_tool", *AT_V),
        ),
        (
            machine(Transition(TEXT_TRIGGERS, to="b", from_="a"), enum=("a", "b", "new")),
            ("warning", "orphan_state", *AT_V),
        ),
        (
            machine(
                Transition(TEXT_TRIGGERS, to="b", from_="a"), tools=(tool("save"),)
            ),  # a tool may set it, but that is not certain
            ("warning", "orphan_state", *AT_V),
        ),
        (
            machine(Transition(ANSWERS), Transition(TEXT_TRIGGERS, to="b", from_="saved"), tools=(tool("save"),)),
            ("warning", "orphan_state", *AT_V),
        ),
        (
            package_comparing("${v} == 'gone'", enum=("done", "new"), tools=(tool("save"),)),
            AT_RULE,
        ),
        (package_comparing("${v} == 'done'", Transition(TEXT_TRIGGERS, to="old")), AT_RULE),
        (package_comparing("${ v } == 'NEXT'", Transition(TEXT_TRIGGERS)), AT_RULE),
        (
            package_comparing("context_variables.v == true", Transition(TEXT_TRIGGERS, to=1)),
            AT_RULE,
        ),
        (package_comparing("${v} == -1", Transition(TEXT_TRIGGERS, to=1)), AT_RULE),
        (package_comparing("${v} == 0.5", Transition(TEXT_TRIGGERS, to=1.5)), AT_RULE),
        (package_comparing("${v} in ['done', \"gone]\"]", Transition(TEXT_TRIGGERS, to="old")), AT_RULE),
        (
            package_comparing("not context_variables.v in[ 1 , true,]", Transition(TEXT_TRIGGERS, to="old")),
            ("warning", "orphan_state", H, "handoff_rules[0]"),  # it always holds
        ),
        (
            package_comparing("${v} == 'done' or ${run_id}", Transition(TEXT_TRIGGERS, to="old")),
            ("warning", "orphan_state", H, "handoff_rules[0]"),
        ),
        (
            package_comparing("${v} in ['gone', null]", Transition(TEXT_TRIGGERS, to="done")),
            AT_RULE,
        ),  # null is in no list
        (package_comparing("${v} in ['no', 'gone']", enum=("done", "new"), tools=(tool("save"),)), AT_RULE),
        (machine(Transition(TEXT_TRIGGERS, to="b"), enum=("new", "b", "c")), ("warning", "orphan_state", *AT_V)),
        (machine(Transition(TEXT_TRIGGERS), enum=("new", "b")), ("warning", "orphan_state", *AT_V)),
    ],
)
def test_a_fault_of_a_state_machine_is_found(checked: Package, finding: FindingKey) -> None:
    assert findings_of(checked) == [finding]


@pytest.mark.parametrize(
    "checked",
    [
        machine(Transition(TEXT_TRIGGERS, to="a", from_="new"), Transition(TEXT_TRIGGERS, to="b", from_="a")),
        machine(Transition(TEXT_TRIGGERS), Transition(TEXT_TRIGGERS, to=None, from_=True)),
        machine(Transition(ANSWERS), Transition(TEXT_TRIGGERS, to="b", from_=True), tools=(tool("save"),)),
        machine(
            Transition(KEYED), Transition(TEXT_TRIGGERS, to="b", from_="saved"), tools=(tool("save"),)
        ),  # any answer
        machine(
            Transition(TEXT_TRIGGERS, to="b", from_="a"), enum=("a", "b", "new"), tools=(tool("save"),)
        ),  # set by the tool
        package_comparing("${v} == 'done'", enum=("done", "old"), default=None, tools=(tool("save"),)),
        machine(Transition(TEXT_TRIGGERS, to="$1"), Transition(TEXT_TRIGGERS, to="b", from_="caught")),
        machine(Transition(TEXT_TRIGGERS, to=[1], from_={"a": 1}), default={"a": 1}),
        package_comparing("${v} == 'done'", Transition(TEXT_TRIGGERS, to="done")),
        package_comparing("${v} == 'new' and ${v} != 'no'", Transition(TEXT_TRIGGERS, to="done")),
        package_comparing("${v} == true", Transition(TEXT_TRIGGERS)),
        package_comparing("${v} == null", Transition(TEXT_TRIGGERS)),
        package_comparing("${v} == 1.5", Transition(TEXT_TRIGGERS, to=1.5)),
        package_comparing("${v} in ['gone', 'done']", Transition(TEXT_TRIGGERS, to="done")),
        package_comparing("${v} not in ['gone']", Transition(TEXT_TRIGGERS, to="done")),
        package_comparing("'${v} in gone' != ${v}", Transition(TEXT_TRIGGERS, to="done")),
        package_comparing(
            "${v} in ['gone']", Transition(TEXT_TRIGGERS, to="done"), orchestrator={"inputs": {"v": {}}}
        ),  # begins there
        machine(Transition(TEXT_TRIGGERS, to="b", from_="a"), orchestrator={"inputs": {"v": {}}}),
        machine(Transition(TEXT_TRIGGERS, to="b"), Transition(ENDS, to=None), enum=("new", "b", None)),
        machine(Transition(TEXT_TRIGGERS, to="b"), enum=("new", "b", "c"), hooks=(HOOK,)),
        machine(Transition(TEXT_TRIGGERS, to="b"), enum=("new", "b", "c"), lifecycle_tools=(BEFORE,)),
        machine(Transition(TEXT_TRIGGERS, to="$1"), enum=("new", "b", "c")),
        machine(Transition(TEXT_TRIGGERS, to="b"), enum=("new", "b", "c"), orchestrator={"inputs": {"v": {}}}),
        machine(enum=("new", "b", "c")),  # no machine, and nothing depends on it
        package_comparing("${v} == 'done'", tools=(tool("save"),)),  # no transitions: a tool writes it
        package_comparing("${v} == 'done'", Transition(TEXT_TRIGGERS), tools=(tool("save"),)),  # a tool may write it
    ],
)
def test_states_that_can_be_are_no_finding(checked: Package) -> None:
    assert findings_of(checked) == []


@pytest.mark.parametrize(("file", "code"), [("tools.yaml", "unknown_agent"), ("agents.yaml", "unknown_tool")])
def test_an_agent_or_a_tool_that_was_refused_is_not_missed(file: str, code: str) -> None:
    checked = machine(Transition(ANSWERS), Transition(AgentTextTrigger("C", equals="x")))
    assert [finding[1] for finding in findings_after_an_error(checked, file)] == [code]


def test_a_part_of_a_user_interface_may_have_another_name_than_any_tool() -> None:
    assert ("warning", "unknown_tool", *AT_V) in findings_of(machine(Transition(SHOWN)))


def test_what_is_missed_is_named() -> None:
    unentered = machine(Transition(TEXT_TRIGGERS, to="b"), enum=("new", "b", "c", "d"))
    of_several = package_comparing("${v} in ['c', 'd'] or ${run_id}", Transition(TEXT_TRIGGERS, to="b"))

    assert "no transition leads to 'c' and 'd' of enum" in messages(unentered, "orphan_state")[0]
    assert messages(of_several, "orphan_state")[0].startswith("v never becomes 'c' or 'd'; ")


def test_a_fault_stands_where_its_transition_or_its_trigger_is() -> None:
    at, of = "definitions.v.source.transitions[1]", "definitions.v.source.transitions[1].trigger"
    unknown = Transition(AgentTextTrigger("C", equals="x"), to="b", from_="a", place=at, trigger_place=of)
    awaited = Transition(ANSWERS, place=at, trigger_place=of)

    assert findings_of(machine(unknown, awaited)) == [
        ("error", "unknown_agent", V, of),
        ("warning", "orphan_state", V, at),
        ("error", "unknown_tool", V, of),
    ]


def test_a_transition_without_guard_may_start_anywhere() -> None:
    assert findings_of(machine(Transition(TEXT_TRIGGERS, to="a", from_=UNSET))) == []


def test_a_long_state_machine_is_checked_in_linear_time() -> None:
    many = [Transition(TEXT_TRIGGERS, to=[number], from_=[number - 1]) for number in range(1, 20_000)]
    assert findings_of(machine(*many, default=[0])) == []
