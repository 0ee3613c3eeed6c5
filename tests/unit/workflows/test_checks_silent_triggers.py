"""Checks of the triggers of tool calls, moments and hand-offs: unknown names, what never fires, what collides."""

from typing import Any

import pytest

from tests.unit.workflows.normal_form import V, agents, found, found_after_an_error, messages, package, rules, tool
from workflows.context.observers.handoff import Handoff
from workflows.context.observers.lifecycle import Lifecycle
from workflows.context.observers.tool_call import ToolCall
from workflows.context.observing import UNSET, Transition, Trigger
from workflows.package.checks.ambiguous import check_ambiguous_transitions
from workflows.package.checks.silent_triggers import check_silent_triggers
from workflows.package.checks.states import check_states
from workflows.package.models import Package, Rule, Variable
from workflows.package.sources import StateSource

AT = "definitions.v.source.trigger"
SILENT = [("warning", "never_fires", V, AT)]
THREE: dict[str, Any] = {"agents": agents("A", "B", "C")}
HUMAN = {"orchestrator": {"human_in_the_loop": True}}
BY_USER = {"orchestrator": {"initial_agent": "user"}, "rules": rules("user > A", "A > terminate")}


def machine(*transitions: Transition, **parts: Any) -> Package:
    return package(variables={"v": Variable("v", "string", StateSource(transitions), "new")}, **parts)


def waiting(trigger: Trigger, **parts: Any) -> Package:
    return machine(Transition(trigger, trigger_place=AT), **parts)


def pattern(name: str) -> dict[str, Any]:
    return {"orchestrator": {"pattern": name}, "rules": (), **THREE}


@pytest.mark.parametrize(
    ("trigger", "parts", "silent"),
    [
        (Handoff("B", "A"), {}, False),
        (Handoff("terminate"), {}, False),
        (Handoff("A"), {}, True),
        (Handoff("A", "B"), {}, True),
        (Handoff("user", "A"), {}, True),
        (Handoff("B", "A"), {"rules": rules("A > B if false", "A > terminate")}, True),
        (Handoff("B", "A"), {"rules": (Rule("A", "B", judged="it is for B"),)}, False),
        (Handoff("A", "A"), {"rules": (Rule("A", "A", "true", scope="pre"), Rule("A", "terminate"))}, True),
        (Handoff("A", "A"), {"rules": (Rule("A", "A"),)}, False),
        (Handoff("A", "user"), {}, True),
        (Handoff("A", "user"), HUMAN, False),
        (Handoff("A", "user"), BY_USER, False),
        (Handoff("A", "user"), {"rules": rules("A > user", "user > A")}, True),
        (Handoff("C", "A"), pattern("AutoPattern"), False),
        (Handoff("terminate", "A"), pattern("AutoPattern"), False),
        (Handoff("C", "A"), pattern("RandomPattern"), False),
        (Handoff("C", "A"), pattern("RoundRobinPattern"), True),
        (Handoff("C", "B"), pattern("RoundRobinPattern"), False),
        (Handoff("C"), pattern("Pipeline"), False),
        (Handoff("A"), pattern("Pipeline"), True),
        (Handoff("terminate"), pattern("Pipeline"), True),
        (Handoff("B"), {"rules": ()}, True),
        (ToolCall("save"), {"tools": (tool("save"),)}, False),
        (ToolCall("save", "A"), {"tools": (tool("save"),)}, False),
        (ToolCall("save", "B"), {"tools": (tool("save"),)}, True),
        (ToolCall("save"), {"tools": (tool("save", bound=False),)}, True),
        (ToolCall("save", "B"), {"tools": (tool("save"), tool("save", "B"))}, False),
        (Lifecycle("on_fail"), {}, False),
    ],
)
def test_what_certainly_never_fires_is_found(trigger: Trigger, parts: dict[str, Any], silent: bool) -> None:
    assert found(waiting(trigger, **parts), check_silent_triggers) == (SILENT if silent else [])


@pytest.mark.parametrize("file", ["agents.yaml", "handoffs.json", "orchestrator.yaml"])
def test_a_refused_part_may_have_been_the_rule(file: str) -> None:
    assert SILENT[0] not in found_after_an_error(waiting(Handoff("A", "B")), file)


@pytest.mark.parametrize("file", ["agents.yaml", "tools.yaml"])
def test_a_refused_part_may_have_been_the_tool(file: str) -> None:
    silent = waiting(ToolCall("save", "B"), tools=(tool("save"),))

    assert SILENT[0] in found_after_an_error(silent, "triggers.yaml")
    assert SILENT[0] not in found_after_an_error(silent, file)


def test_the_finding_says_which_way_is_missing() -> None:
    assert messages(waiting(Handoff("A", "B")), "never_fires") == [
        "B never hands over to A, so this never fires; correct it, or add such a rule"
    ]
    assert messages(waiting(Handoff("A")), "never_fires")[0].startswith("nothing ever hands over to A, ")
    assert messages(waiting(ToolCall("save", "B"), tools=(tool("save"),)), "never_fires")[0].startswith(
        "B is not given the tool save, "
    )


@pytest.mark.parametrize(
    ("trigger", "codes"),
    [
        (Handoff("C"), ["unknown_agent"]),
        (Handoff("A", "C"), ["unknown_agent"]),
        (Handoff("D", "C"), ["unknown_agent"] * 2),
        (Handoff("terminate", "B"), []),
        (Handoff("user", "user"), []),
        (Lifecycle("before_agent", "C"), ["unknown_agent"]),
        (Lifecycle("before_agent", "user"), ["unknown_agent"]),
        (ToolCall("save", "C"), ["unknown_agent", "unknown_tool"]),
    ],
)
def test_an_unknown_name_is_an_error_reported_once(trigger: Trigger, codes: list[str]) -> None:
    unknown = [("error", code, V, AT) for code in codes]

    assert found(waiting(trigger), check_states) == unknown
    if codes:
        assert found(waiting(trigger), check_silent_triggers) == []


def to(value: Any, trigger: Trigger, from_: Any = UNSET) -> Transition:
    return Transition(trigger, to=value, from_=from_, place=f"at {value}")


@pytest.mark.parametrize(
    ("first", "second", "collide"),
    [
        (to(1, ToolCall("t")), to(2, ToolCall("t")), True),
        (to(1, ToolCall("t")), to(2, ToolCall("t", "A")), True),
        (to(1, ToolCall("t", "A")), to(2, ToolCall("t")), True),
        (to(1, ToolCall("t", "A")), to(2, ToolCall("t", "B")), False),
        (to(1, ToolCall("t")), to(1, ToolCall("t", "A")), False),
        (to(1, ToolCall("t")), to(2, ToolCall("u")), False),
        (to(1, ToolCall("t"), "a"), to(2, ToolCall("t"), "b"), False),
        (to(1, ToolCall("t")), to(2, ToolCall("t"), "b"), False),  # a toggle
        (to(1, Lifecycle("after_agent")), to(2, Lifecycle("after_agent", "A")), True),
        (to(1, Lifecycle("after_agent")), to(2, Lifecycle("before_agent")), False),
        (to(1, Handoff("A"), "a"), to(2, Handoff("A", "B"), "a"), True),
        (to(1, Handoff("A", "C")), to(2, Handoff("A", "B")), False),
        (to(1, Handoff("A")), to(2, Handoff("B")), False),
    ],
)
def test_two_that_one_event_fires_to_different_ends_are_refused(
    first: Transition, second: Transition, collide: bool
) -> None:
    expected = [("error", "ambiguous_transitions", V, second.place)] if collide else []

    assert found(machine(first, second), check_ambiguous_transitions) == expected
