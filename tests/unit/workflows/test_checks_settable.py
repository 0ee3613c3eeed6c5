"""Checks of states that a condition depends on, and that nothing can ever set."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.normal_form import (
    ORCH,
    H,
    V,
    found,
    found_after_an_error,
    messages,
    package,
    rules,
    states,
    tool,
    variables,
)
from workflows.context.observers.agent_text import AgentText
from workflows.context.observing import Transition
from workflows.package.models import Hook, LifecycleTool, Package
from workflows.package.sources import ComputedSource, RuntimeSource, StateSource

ORPHAN = ("warning", "orphan_state", V, "definitions.v")
WAITS = ("warning", "waits_for_ever", H, "handoff_rules[0]")
BATCHES = Path("extended_orchestration") / "task_batches.yaml"


def depending(condition: str = "${v} == 'done'", **parts: Any) -> Package:
    return package(
        **{"variables": states("v"), "rules": rules(f"A > B if {condition}", "A > B", "B > terminate"), **parts}
    )


@pytest.mark.parametrize(
    "condition", ["not ${v}", "${v.part} != 1", "${v} == null", "${v} or ${run_id}", "${v} == 1 or ${run_id} == 'r'"]
)
def test_a_state_that_nothing_sets_is_found_where_it_is_defined(condition: str) -> None:
    assert found(depending(condition)) == [ORPHAN]
    assert found(depending(rules=rules("A > B", *[f"B > {to} if {condition}" for to in "BA"], "B > terminate"))) == [
        ORPHAN  # once
    ]


@pytest.mark.parametrize(
    "checked",
    [
        depending(),
        depending("${v.part} == 1"),
        depending("context_variables.v"),
        depending(variables=variables(v=ComputedSource())),
    ],
)
def test_a_rule_that_needs_what_nothing_sets_is_found_once(checked: Package) -> None:
    assert [each for each in found(checked) if each[1] != "unreachable_agent"] == [WAITS]


@pytest.mark.parametrize(
    "checked",
    [
        depending(tools=(tool("save"),)),
        depending(tools=(tool("save", kind="UI_Tool"),)),
        depending(lifecycle_tools=(LifecycleTool("before_chat", None, Path("t.py"), "t"),)),
        depending(hooks=(Hook("process_message_before_send", "all", Path("h.py"), "h"),)),
        depending(orchestrator={"inputs": {"v": {}}}),
        depending(variables=variables(v=RuntimeSource())),
        depending(variables=variables(v=StateSource((Transition(AgentText("A", equals="x"), to="done"),)))),
        depending(variables=variables(v=ComputedSource("w", {"w": "app_id"}))),
        depending("${app_id} == 1"),  # never named
    ],
)
def test_a_state_that_something_may_set_is_no_finding(checked: Package) -> None:
    assert found(checked) == []


@pytest.mark.parametrize("file", [V, ORCH, "tools.yaml", "hooks"])
def test_what_was_refused_may_have_set_it(file: str) -> None:
    assert found_after_an_error(depending(), file) == []


def test_batches_of_tasks_may_set_it(tmp_path: Path) -> None:
    (tmp_path / BATCHES).parent.mkdir()
    (tmp_path / BATCHES).touch()

    assert found(depending(folder=tmp_path)) == []


def test_what_it_stays_is_said() -> None:
    assert messages(depending("not ${v}"), "orphan_state")[0].startswith(
        "a condition depends on v, and nothing ever sets it: it keeps its default None; add a transition"
    )
