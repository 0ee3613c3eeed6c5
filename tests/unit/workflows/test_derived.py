"""Derived variables: what an agent's words set, once."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.context.context_variables import ContextVariables
from workflows.context.derived import changes, derive, matches, snapshot
from workflows.package.models import AgentText, Variable


def variable(*triggers: AgentText, name: str = "done", default: Any = False) -> Variable:
    return Variable(name=name, type="boolean", kind="state", default=default, triggers=triggers)


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
def test_what_matches(trigger: AgentText, text: str, expected: bool) -> None:
    assert matches(trigger, text) is expected


def test_only_the_named_agent_sets_it() -> None:
    context = ContextVariables({"done": False})

    assert derive([variable(AgentText("A", contains="x"))], context, agent="B", text="x") == {}
    assert context["done"] is False


def test_a_value_of_its_own_is_set_and_belongs_to_the_run() -> None:
    trigger = AgentText("A", contains="x", value=["first"])
    one, other = ContextVariables(), ContextVariables()
    derive([variable(trigger)], one, agent="A", text="x")
    one["done"].append("second")

    derive([variable(trigger)], other, agent="A", text="x")

    assert other["done"] == ["first"]


triggers = st.builds(
    AgentText,
    agent=st.sampled_from(["A", "B"]),
    contains=st.sampled_from(["", "x", "y"]),
    value=st.sampled_from([True, False, "stage", None]),
)


@given(st.lists(triggers, max_size=4), st.sampled_from(["", "x", "xy"]), st.sampled_from(["A", "B"]))
def test_applying_it_again_changes_nothing(given_triggers: list[AgentText], text: str, agent: str) -> None:
    context = ContextVariables({"done": False})
    derive([variable(*given_triggers)], context, agent=agent, text=text)
    after_once = dict(context)

    again = derive([variable(*given_triggers)], context, agent=agent, text=text)

    assert again == {}
    assert dict(context) == after_once


def test_changes_name_what_is_new_other_or_gone() -> None:
    before = snapshot({"a": 1, "b": 2, "c": 3})

    assert changes(before, {"a": 1, "b": 5, "d": None}) == {"b": 5, "c": None, "d": None}


def test_a_list_that_was_changed_in_place_is_a_change() -> None:
    context = {"items": [1], "kept": [1]}
    before = snapshot(context)

    context["items"].append(2)

    assert changes(before, context) == {"items": [1, 2]}


def test_a_pattern_that_backtracks_without_end_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    trigger = AgentText(agent="A", regex="^(a|aa)+$")

    assert not matches(trigger, "a" * 60 + "!")
    assert [record.message for record in caplog.records] == ["pattern_timed_out"]
