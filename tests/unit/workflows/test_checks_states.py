"""Checks of state machines."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.normal_form import H, Said, V, found, found_after_an_error, package, rules, tool, variables
from workflows.context.observers.agent_text import AgentText
from workflows.context.observing import UNSET, Fired, Transition, TurnSeen
from workflows.package.models import Package
from workflows.package.sources import StateSource

AT_V = (V, "definitions.v")


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
KEYED = Watches("tool_response", tool="save", response_key="state")
ANSWERS = Watches("tool_response", tool="save")


def machine(*transitions: Transition, default: Any = "new", enum: tuple[Any, ...] = (), **parts: Any) -> Package:
    one = variables(v=StateSource(transitions))
    return package(variables={"v": replace(one["v"], default=default, enum=enum)}, **parts)


def compared(condition: str, *transitions: Transition, **parts: Any) -> Package:
    return machine(*transitions, rules=rules(f"A > B if {condition}", "A > B", "B > terminate"), **parts)


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
            ("warning", "orphan_state", H, "handoff_rules[0]"),
        ),
        (compared("${v} == 'done'", Transition(SAYS, to="old")), ("warning", "orphan_state", H, "handoff_rules[0]")),
        (compared("${ v } == 'NEXT'", Transition(SAYS)), ("warning", "orphan_state", H, "handoff_rules[0]")),
        (
            compared("context_variables.v == true", Transition(SAYS, to=1)),
            ("warning", "orphan_state", H, "handoff_rules[0]"),
        ),
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
        compared("${v} == 'done'"),  # no transitions: a tool writes it
        compared("${v} == 'done'", Transition(SAYS), tools=(tool("save"),)),  # a tool may write it
    ],
)
def test_states_that_can_be_are_no_finding(checked: Package) -> None:
    assert found(checked) == []


@pytest.mark.parametrize(("file", "code"), [("tools.yaml", "unknown_agent"), ("agents.yaml", "unknown_tool")])
def test_an_agent_or_a_tool_that_was_refused_is_not_missed(file: str, code: str) -> None:
    checked = machine(Transition(ANSWERS), Transition(AgentText("C", equals="x")))
    assert [each[1] for each in found_after_an_error(checked, file)] == [code]


def test_a_transition_without_guard_may_start_anywhere() -> None:
    assert found(machine(Transition(SAYS, to="a", from_=UNSET))) == []


def test_a_long_state_machine_is_checked_in_linear_time() -> None:
    many = [Transition(SAYS, to=[number], from_=[number - 1]) for number in range(1, 20_000)]
    assert found(machine(*many, default=[0])) == []
