"""Checks of state machines."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.normal_form import (
    H,
    Said,
    V,
    found,
    found_after_an_error,
    messages,
    package,
    rules,
    tool,
    variables,
)
from workflows.context.observers.agent_text import AgentText
from workflows.context.observing import UNSET, Fired, Transition, TurnSeen
from workflows.package.models import Hook, LifecycleTool, Package
from workflows.package.sources import StateSource

AT_V = (V, "definitions.v")
AT_RULE = ("warning", "waits_for_ever", H, "handoff_rules[0]")


@dataclass(frozen=True, slots=True)
class Watches:
    """A trigger of any type, by what it names."""

    type: str
    agent: str | None = None
    tool: str | None = None
    response_key: str | None = None

    def fires(self, turn: TurnSeen) -> Fired | None:
        return Fired() if turn.agent == self.agent else None


SAYS = AgentText("A", equals="NEXT")
ENDS = AgentText("A", equals="END")
KEYED = Watches("tool_response", tool="save", response_key="state")
SHOWN = Watches("ui_response", tool="form_id", response_key="state")
ANSWERS = Watches("tool_response", tool="save")
HOOK = Hook("update_agent_state", "A", Path("h.py"), "h")
BEFORE = LifecycleTool("before_chat", None, Path("t.py"), "t")


def machine(*transitions: Transition, default: Any = "new", enum: tuple[Any, ...] = (), **parts: Any) -> Package:
    one = variables(v=StateSource(transitions))
    return package(variables={"v": replace(one["v"], default=default, enum=enum)}, **parts)


def compared(condition: str, *transitions: Transition, **parts: Any) -> Package:
    return machine(*transitions, rules=rules(f"A > B if {condition}", "A > B", "B > terminate"), **parts)


@pytest.mark.design("D2-9", "D4-99")
@pytest.mark.parametrize(
    ("checked", "finding"),
    [
        (machine(Transition(SAYS, to="b", from_="a")), ("warning", "orphan_state", *AT_V)),
        (machine(Transition(SAYS, from_="a")), ("warning", "orphan_state", *AT_V)),
        (machine(Transition(SAYS, to=1, from_=True), default=1), ("warning", "orphan_state", *AT_V)),
        (machine(Transition(AgentText("C", equals="x"))), ("error", "unknown_agent", *AT_V)),
        (machine(Transition(ANSWERS)), ("error", "unknown_tool", *AT_V)),
        (
            machine(Transition(ANSWERS), tools=(replace(tool("other"), file=Path("save.py")),)),
            ("warning", "unknown_tool", *AT_V),
        ),
        (machine(Transition(SAYS, to="b", from_="a"), enum=("a", "b", "new")), ("warning", "orphan_state", *AT_V)),
        (
            machine(Transition(SAYS, to="b", from_="a"), tools=(tool("save"),)),  # a tool may, but nothing says so
            ("warning", "orphan_state", *AT_V),
        ),
        (
            machine(Transition(ANSWERS), Transition(SAYS, to="b", from_="saved"), tools=(tool("save"),)),
            ("warning", "orphan_state", *AT_V),
        ),
        (
            compared("${v} == 'gone'", enum=("done", "new"), tools=(tool("save"),)),
            AT_RULE,
        ),
        (compared("${v} == 'done'", Transition(SAYS, to="old")), AT_RULE),
        (compared("${ v } == 'NEXT'", Transition(SAYS)), AT_RULE),
        (
            compared("context_variables.v == true", Transition(SAYS, to=1)),
            AT_RULE,
        ),
        (compared("${v} == -1", Transition(SAYS, to=1)), AT_RULE),
        (compared("${v} == 0.5", Transition(SAYS, to=1.5)), AT_RULE),
        (compared("${v} in ['done', \"gone]\"]", Transition(SAYS, to="old")), AT_RULE),
        (
            compared("not context_variables.v in[ 1 , true,]", Transition(SAYS, to="old")),
            ("warning", "orphan_state", H, "handoff_rules[0]"),  # it always holds
        ),
        (
            compared("${v} == 'done' or ${run_id}", Transition(SAYS, to="old")),
            ("warning", "orphan_state", H, "handoff_rules[0]"),
        ),
        (compared("${v} in ['gone', null]", Transition(SAYS, to="done")), AT_RULE),  # nothing is in no list
        (compared("${v} in ['no', 'gone']", enum=("done", "new"), tools=(tool("save"),)), AT_RULE),
        (machine(Transition(SAYS, to="b"), enum=("new", "b", "c")), ("warning", "orphan_state", *AT_V)),
        (machine(Transition(SAYS), enum=("new", "b")), ("warning", "orphan_state", *AT_V)),
    ],
)
def test_a_fault_of_a_state_machine_is_found(checked: Package, finding: Said) -> None:
    assert found(checked) == [finding]


@pytest.mark.parametrize(
    "checked",
    [
        machine(Transition(SAYS, to="a", from_="new"), Transition(SAYS, to="b", from_="a")),
        machine(Transition(SAYS), Transition(SAYS, to=None, from_=True)),
        machine(Transition(ANSWERS), Transition(SAYS, to="b", from_=True), tools=(tool("save"),)),
        machine(Transition(KEYED), Transition(SAYS, to="b", from_="saved"), tools=(tool("save"),)),  # any answer
        machine(Transition(SAYS, to="b", from_="a"), enum=("a", "b", "new"), tools=(tool("save"),)),  # set by the tool
        compared("${v} == 'done'", enum=("done", "old"), default=None, tools=(tool("save"),)),
        machine(Transition(SAYS, to="$1"), Transition(SAYS, to="b", from_="caught")),
        machine(Transition(SAYS, to=[1], from_={"a": 1}), default={"a": 1}),
        compared("${v} == 'done'", Transition(SAYS, to="done")),
        compared("${v} == 'new' and ${v} != 'no'", Transition(SAYS, to="done")),
        compared("${v} == true", Transition(SAYS)),
        compared("${v} == null", Transition(SAYS)),
        compared("${v} == 1.5", Transition(SAYS, to=1.5)),
        compared("${v} in ['gone', 'done']", Transition(SAYS, to="done")),
        compared("${v} not in ['gone']", Transition(SAYS, to="done")),
        compared("'${v} in gone' != ${v}", Transition(SAYS, to="done")),
        compared("${v} in ['gone']", Transition(SAYS, to="done"), orchestrator={"inputs": {"v": {}}}),  # begins there
        machine(Transition(SAYS, to="b", from_="a"), orchestrator={"inputs": {"v": {}}}),
        machine(Transition(SAYS, to="b"), Transition(ENDS, to=None), enum=("new", "b", None)),
        machine(Transition(SAYS, to="b"), enum=("new", "b", "c"), hooks=(HOOK,)),
        machine(Transition(SAYS, to="b"), enum=("new", "b", "c"), lifecycle_tools=(BEFORE,)),
        machine(Transition(SAYS, to="$1"), enum=("new", "b", "c")),
        machine(Transition(SAYS, to="b"), enum=("new", "b", "c"), orchestrator={"inputs": {"v": {}}}),
        machine(enum=("new", "b", "c")),  # no machine, and nothing depends on it
        compared("${v} == 'done'", tools=(tool("save"),)),  # no transitions: a tool writes it
        compared("${v} == 'done'", Transition(SAYS), tools=(tool("save"),)),  # a tool may write it
    ],
)
def test_states_that_can_be_are_no_finding(checked: Package) -> None:
    assert found(checked) == []


@pytest.mark.parametrize(("file", "code"), [("tools.yaml", "unknown_agent"), ("agents.yaml", "unknown_tool")])
def test_an_agent_or_a_tool_that_was_refused_is_not_missed(file: str, code: str) -> None:
    checked = machine(Transition(ANSWERS), Transition(AgentText("C", equals="x")))
    assert [each[1] for each in found_after_an_error(checked, file)] == [code]


def test_a_part_of_a_user_interface_may_have_another_name_than_any_tool() -> None:
    assert ("warning", "unknown_tool", *AT_V) in found(machine(Transition(SHOWN)))


def test_what_is_missed_is_named() -> None:
    unentered = machine(Transition(SAYS, to="b"), enum=("new", "b", "c", "d"))
    of_several = compared("${v} in ['c', 'd'] or ${run_id}", Transition(SAYS, to="b"))

    assert "enum allows 'c' and 'd', where no transition leads" in messages(unentered, "orphan_state")[0]
    assert messages(of_several, "orphan_state")[0].startswith("v never becomes 'c' or 'd'; ")


def test_a_fault_stands_where_its_transition_or_its_trigger_is() -> None:
    at, of = "definitions.v.source.transitions[1]", "definitions.v.source.transitions[1].trigger"
    unknown = Transition(AgentText("C", equals="x"), to="b", from_="a", place=at, trigger_place=of)
    awaited = Transition(ANSWERS, place=at, trigger_place=of)

    assert found(machine(unknown, awaited)) == [
        ("error", "unknown_agent", V, of),
        ("warning", "orphan_state", V, at),
        ("error", "unknown_tool", V, of),
    ]


def test_a_transition_without_guard_may_start_anywhere() -> None:
    assert found(machine(Transition(SAYS, to="a", from_=UNSET))) == []


def test_a_long_state_machine_is_checked_in_linear_time() -> None:
    many = [Transition(SAYS, to=[number], from_=[number - 1]) for number in range(1, 20_000)]
    assert found(machine(*many, default=[0])) == []
