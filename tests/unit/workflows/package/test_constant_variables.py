"""Checks of constant variables: a condition depends on them, and nothing sets them."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.normal_form import (
    ORCH,
    H,
    V,
    findings_after_an_error,
    findings_of,
    messages,
    package,
    rules,
    states,
    tool,
    variables,
)
from workflows.context.observers.agent_text import AgentTextTrigger
from workflows.context.state.state_transitions import Transition
from workflows.package.normal_form.package_model import Hook, LifecycleTool, Package
from workflows.package.normal_form.variable_sources import ComputedSource, RuntimeSource, StateSource

ORPHAN = ("warning", "orphan_state", V, "definitions.v")
WAITS = ("warning", "waits_for_ever", H, "handoff_rules[0]")
BATCHES = Path("extended_orchestration") / "task_batches.yaml"


def package_depending_on(condition: str = "${v} == 'done'", **parts: Any) -> Package:
    return package(
        **{"variables": states("v"), "rules": rules(f"A > B if {condition}", "A > B", "B > terminate"), **parts}
    )


@pytest.mark.parametrize(
    "condition", ["not ${v}", "${v.part} != 1", "${v} == null", "${v} or ${run_id}", "${v} == 1 or ${run_id} == 'r'"]
)
def test_a_state_that_nothing_sets_is_found_where_it_is_defined(condition: str) -> None:
    assert findings_of(package_depending_on(condition)) == [ORPHAN]
    assert findings_of(
        package_depending_on(rules=rules("A > B", *[f"B > {to} if {condition}" for to in "BA"], "B > terminate"))
    ) == [
        ORPHAN  # once
    ]


@pytest.mark.parametrize(
    "checked",
    [
        package_depending_on(),
        package_depending_on("${v.part} == 1"),
        package_depending_on("context_variables.v"),
        package_depending_on(variables=variables(v=ComputedSource())),
    ],
)
def test_a_rule_that_needs_what_nothing_sets_is_found_once(checked: Package) -> None:
    assert [finding for finding in findings_of(checked) if finding[1] != "unreachable_agent"] == [WAITS]


@pytest.mark.parametrize(
    "checked",
    [
        package_depending_on(tools=(tool("save"),)),
        package_depending_on(tools=(tool("save", kind="UI_Tool"),)),
        package_depending_on(lifecycle_tools=(LifecycleTool("before_chat", None, Path("t.py"), "t"),)),
        package_depending_on(hooks=(Hook("process_message_before_send", "all", Path("h.py"), "h"),)),
        package_depending_on(orchestrator={"inputs": {"v": {}}}),
        package_depending_on(variables=variables(v=RuntimeSource())),
        package_depending_on(
            variables=variables(v=StateSource((Transition(AgentTextTrigger("A", equals="x"), to="done"),)))
        ),
        package_depending_on(variables=variables(v=ComputedSource("w", {"w": "app_id"}))),
        package_depending_on("${app_id} == 1"),  # never named
    ],
)
def test_a_state_that_something_may_set_is_no_finding(checked: Package) -> None:
    assert findings_of(checked) == []


@pytest.mark.parametrize("file", [V, ORCH, "tools.yaml", "hooks"])
def test_what_was_refused_may_have_set_it(file: str) -> None:
    assert findings_after_an_error(package_depending_on(), file) == []


def test_batches_of_tasks_may_set_it(tmp_path: Path) -> None:
    (tmp_path / BATCHES).parent.mkdir()
    (tmp_path / BATCHES).touch()

    assert findings_of(package_depending_on(folder=tmp_path)) == []


def test_the_message_names_the_value_it_keeps() -> None:
    assert messages(package_depending_on("not ${v}"), "orphan_state")[0].startswith(
        "a condition depends on v, but nothing sets it, so it keeps its default None; add a transition"
    )
