"""Checks of transitions: unknown names, triggers that never fire, and collisions."""

from typing import Any

import pytest

from tests.unit.workflows.normal_form import (
    V,
    agents,
    findings_after_an_error,
    findings_of,
    messages,
    package,
    rules,
    tool,
)
from workflows.context.observers.handoff import HandoffTrigger
from workflows.context.observers.lifecycle import LifecycleTrigger
from workflows.context.observers.tool_call import ToolCallTrigger
from workflows.context.state.state_transitions import UNSET, StateTrigger, Transition
from workflows.package.checks.variables.ambiguous_transitions import check_ambiguous_transitions
from workflows.package.checks.variables.state_checks import check_states
from workflows.package.checks.variables.unreachable_transitions import check_unreachable_transitions
from workflows.package.normal_form.package_model import Package, Rule, Variable
from workflows.package.normal_form.variable_sources import StateSource

AT = "definitions.v.source.trigger"
SILENT = [("warning", "never_fires", V, AT)]
THREE: dict[str, Any] = {"agents": agents("A", "B", "C")}
HUMAN = {"orchestrator": {"human_in_the_loop": True}}
BY_USER = {"orchestrator": {"initial_agent": "user"}, "rules": rules("user > A", "A > terminate")}


def machine(*transitions: Transition, **parts: Any) -> Package:
    return package(variables={"v": Variable("v", "string", StateSource(transitions), "new")}, **parts)


def waiting_package(trigger: StateTrigger, **parts: Any) -> Package:
    return machine(Transition(trigger, trigger_place=AT), **parts)


def pattern(name: str) -> dict[str, Any]:
    return {"orchestrator": {"pattern": name}, "rules": (), **THREE}


@pytest.mark.parametrize(
    ("trigger", "parts", "silent"),
    [
        (HandoffTrigger("B", "A"), {}, False),
        (HandoffTrigger("terminate"), {}, False),
        (HandoffTrigger("A"), {}, True),
        (HandoffTrigger("A", "B"), {}, True),
        (HandoffTrigger("user", "A"), {}, True),
        (HandoffTrigger("B", "A"), {"rules": rules("A > B if false", "A > terminate")}, True),
        (HandoffTrigger("B", "A"), {"rules": (Rule("A", "B", judgement="it is for B"),)}, False),
        (HandoffTrigger("A", "A"), {"rules": (Rule("A", "A", "true", scope="pre"), Rule("A", "terminate"))}, True),
        (HandoffTrigger("A", "A"), {"rules": (Rule("A", "A"),)}, False),
        (HandoffTrigger("A", "user"), {}, True),
        (HandoffTrigger("A", "user"), HUMAN, False),
        (HandoffTrigger("A", "user"), BY_USER, False),
        (HandoffTrigger("A", "user"), {"rules": rules("A > user", "user > A")}, True),
        (HandoffTrigger("C", "A"), pattern("AutoPattern"), False),
        (HandoffTrigger("terminate", "A"), pattern("AutoPattern"), False),
        (HandoffTrigger("C", "A"), pattern("RandomPattern"), False),
        (HandoffTrigger("C", "A"), pattern("RoundRobinPattern"), True),
        (HandoffTrigger("C", "B"), pattern("RoundRobinPattern"), False),
        (HandoffTrigger("C"), pattern("Pipeline"), False),
        (HandoffTrigger("A"), pattern("Pipeline"), True),
        (HandoffTrigger("terminate"), pattern("Pipeline"), True),
        (HandoffTrigger("B"), {"rules": ()}, True),
        (ToolCallTrigger("save"), {"tools": (tool("save"),)}, False),
        (ToolCallTrigger("save", "A"), {"tools": (tool("save"),)}, False),
        (ToolCallTrigger("save", "B"), {"tools": (tool("save"),)}, True),
        (ToolCallTrigger("save"), {"tools": (tool("save", bound=False),)}, True),
        (ToolCallTrigger("save", "B"), {"tools": (tool("save"), tool("save", "B"))}, False),
        (LifecycleTrigger("on_fail"), {}, False),
    ],
)
def test_what_certainly_never_fires_is_found(trigger: StateTrigger, parts: dict[str, Any], silent: bool) -> None:
    assert findings_of(waiting_package(trigger, **parts), check_unreachable_transitions) == (SILENT if silent else [])


@pytest.mark.parametrize("file", ["agents.yaml", "handoffs.json", "orchestrator.yaml"])
def test_a_refused_part_may_have_been_the_rule(file: str) -> None:
    assert SILENT[0] not in findings_after_an_error(waiting_package(HandoffTrigger("A", "B")), file)


@pytest.mark.parametrize("file", ["agents.yaml", "tools.yaml"])
def test_a_refused_part_may_have_been_the_tool(file: str) -> None:
    silent = waiting_package(ToolCallTrigger("save", "B"), tools=(tool("save"),))

    assert SILENT[0] in findings_after_an_error(silent, "triggers.yaml")
    assert SILENT[0] not in findings_after_an_error(silent, file)


def test_the_finding_names_the_missing_way() -> None:
    assert messages(waiting_package(HandoffTrigger("A", "B")), "never_fires") == [
        "B never hands over to A, so this never fires; correct it, or add that rule"
    ]
    assert messages(waiting_package(HandoffTrigger("A")), "never_fires")[0].startswith("no agent hands over to A, ")
    assert messages(waiting_package(ToolCallTrigger("save", "B"), tools=(tool("save"),)), "never_fires")[0].startswith(
        "B does not have the tool save, "
    )


@pytest.mark.parametrize(
    ("trigger", "codes"),
    [
        (HandoffTrigger("C"), ["unknown_agent"]),
        (HandoffTrigger("A", "C"), ["unknown_agent"]),
        (HandoffTrigger("D", "C"), ["unknown_agent"] * 2),
        (HandoffTrigger("terminate", "B"), []),
        (HandoffTrigger("user", "user"), []),
        (LifecycleTrigger("before_agent", "C"), ["unknown_agent"]),
        (LifecycleTrigger("before_agent", "user"), ["unknown_agent"]),
        (ToolCallTrigger("save", "C"), ["unknown_agent", "unknown_tool"]),
    ],
)
def test_an_unknown_name_is_an_error_reported_once(trigger: StateTrigger, codes: list[str]) -> None:
    unknown = [("error", code, V, AT) for code in codes]

    assert findings_of(waiting_package(trigger), check_states) == unknown
    if codes:
        assert findings_of(waiting_package(trigger), check_unreachable_transitions) == []


def transition_to(value: Any, trigger: StateTrigger, from_: Any = UNSET) -> Transition:
    return Transition(trigger, to=value, from_=from_, place=f"at {value}")


@pytest.mark.parametrize(
    ("first", "second", "collide"),
    [
        (transition_to(1, ToolCallTrigger("t")), transition_to(2, ToolCallTrigger("t")), True),
        (transition_to(1, ToolCallTrigger("t")), transition_to(2, ToolCallTrigger("t", "A")), True),
        (transition_to(1, ToolCallTrigger("t", "A")), transition_to(2, ToolCallTrigger("t")), True),
        (transition_to(1, ToolCallTrigger("t", "A")), transition_to(2, ToolCallTrigger("t", "B")), False),
        (transition_to(1, ToolCallTrigger("t")), transition_to(1, ToolCallTrigger("t", "A")), False),
        (transition_to(1, ToolCallTrigger("t")), transition_to(2, ToolCallTrigger("u")), False),
        (transition_to(1, ToolCallTrigger("t"), "a"), transition_to(2, ToolCallTrigger("t"), "b"), False),
        (transition_to(1, ToolCallTrigger("t")), transition_to(2, ToolCallTrigger("t"), "b"), False),  # a toggle
        (
            transition_to(1, LifecycleTrigger("after_agent")),
            transition_to(2, LifecycleTrigger("after_agent", "A")),
            True,
        ),
        (transition_to(1, LifecycleTrigger("after_agent")), transition_to(2, LifecycleTrigger("before_agent")), False),
        (transition_to(1, HandoffTrigger("A"), "a"), transition_to(2, HandoffTrigger("A", "B"), "a"), True),
        (transition_to(1, HandoffTrigger("A", "C")), transition_to(2, HandoffTrigger("A", "B")), False),
        (transition_to(1, HandoffTrigger("A")), transition_to(2, HandoffTrigger("B")), False),
    ],
)
def test_two_that_one_event_fires_to_different_ends_are_refused(
    first: Transition, second: Transition, collide: bool
) -> None:
    expected = [("error", "ambiguous_transitions", V, second.place)] if collide else []

    assert findings_of(machine(first, second), check_ambiguous_transitions) == expected
