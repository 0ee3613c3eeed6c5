"""Findings of wrapped files and of triggers name the right place and line."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.packages import load, rule, write_package
from workflows.package.files.line_numbers import locate_findings
from workflows.package.findings import Finding
from workflows.package.loader import inspect_package
from workflows.package.normal_form.package_model import Package

BAD = {"type": "nothing"}
WEEKLY: dict[str, Any] = {"type": "schedule", "apps": ["acme"], "cron": "0 6 * * 1"}


def of_file(package: Package, stem: str) -> list[Finding]:
    found = [finding for finding in package.findings if finding.file.startswith(stem)]
    return sorted(locate_findings(found, package.folder), key=lambda each: each.path)


@pytest.mark.parametrize(
    ("stem", "text", "expected"),
    [
        (
            "context_variables",
            "context_variables:\n  definitions:\n    v:\n      type: nothing\n",
            [("wrong_value", "context_variables.definitions.v.type", 4)],
        ),
        (
            "context_variables",
            "ContextVariablesPlan:\n  definitions:\n  - name: v\n    type: nothing\nagents: 5\n",
            [
                ("wrong_value", "ContextVariablesPlan.definitions[0].type", 4),
                ("wrong_type", "agents", 5),
            ],
        ),
        (
            "handoffs",
            "handoffs:\n  handoff_rules:\n  - {source_agent: A, target_agent: Nobody}\n",
            [("unknown_agent", "handoffs.handoff_rules[0].target_agent", 3)],
        ),
        (
            "structured_outputs",
            "structured_outputs:\n  models:\n    M:\n      fields:\n        a: {type: strng}\nregistry:\n  A: N\n",
            [
                ("unknown_model", "registry.A", 7),
                ("unknown_type", "structured_outputs.models.M.fields.a.type", 5),
            ],
        ),
        (
            "tools",
            "tools:\n  tools:\n  - {agent: Nobody, file: a.py, function: f}\nmore: 1\n",
            [
                ("not_executed", "more", 4),
                ("unknown_agent", "tools.tools[0].agent", 3),
                ("missing_tool_file", "tools.tools[0].file", 3),
            ],
        ),
        (
            "triggers",
            "triggers:\n  triggers:\n  - {type: schedule, every: 1h}\n  - {type: nothing}\n",
            [
                ("inactive_trigger", "triggers.triggers[0]", 3),
                ("unknown_trigger", "triggers.triggers[1].type", 4),
            ],
        ),
    ],
)
def test_a_wrapper_is_a_part_of_the_place(
    tmp_path: Path, stem: str, text: str, expected: list[tuple[str, str, int]]
) -> None:
    found = of_file(load(tmp_path, **{stem: text}), stem)
    assert [(finding.code, finding.path, finding.line) for finding in found] == expected


def test_agents_and_orchestrators_are_wrapped_too(tmp_path: Path) -> None:
    package = load(
        tmp_path,
        orchestrator={
            "orchestrator": {"workflow_name": "S", "initial_agent": "A", "triggers": [BAD]},
            "retry": {"a": 1},
        },
        agents={"agents": {"A": {"model": 5, "system_message": "s"}}},
    )

    assert [finding.path for finding in of_file(package, "orchestrator")] == ["orchestrator.triggers[0].type", "retry"]
    assert [finding.path for finding in of_file(package, "agents")] == ["agents.A.model"]


def test_checks_across_files_name_wrapped_places(tmp_path: Path) -> None:
    rules = {"handoffs": {"handoff_rules": [rule("A", "B", "${nothing} == 1"), rule("B", "terminate")]}}
    source = {"type": "data_reference", "database": "shop", "collection": "c", "query": {"a": 1}, "fields": ["f"]}
    package = load(
        tmp_path, handoffs=rules, context_variables={"context_variables": {"definitions": {"v": {"source": source}}}}
    )

    found = {finding.code: finding.path for finding in package.findings}
    assert found["waits_for_ever"] == "handoffs.handoff_rules[0]"
    assert found["no_tenant_key"] == "context_variables.definitions.v"


def test_a_finding_about_a_triggers_value_names_that_trigger(tmp_path: Path) -> None:
    inputs = {"order": {"type": "string", "required": True}}
    package = load(
        tmp_path,
        orchestrator={"workflow_name": "S", "initial_agent": "A", "inputs": inputs},
        triggers=[{**WEEKLY, "input": {"order": "1"}}, {**WEEKLY, "name": "own", "input": {"ordr": "1"}}],
    )

    assert package.trigger_places == {"schedule-0": "triggers[0]", "own": "triggers[1]"}
    found = [(finding.code, finding.path, finding.line) for finding in of_file(package, "triggers")]
    assert found == [("unknown_input", "triggers[1]", 7), ("missing_input", "triggers[1]", 7)]


@pytest.mark.parametrize("empty", ["", "[]", "triggers: []", "triggers:\nschema_version: v1\n"])
def test_an_empty_triggers_file_is_no_second_place(tmp_path: Path, empty: str) -> None:
    orchestrator = {"workflow_name": "S", "initial_agent": "A", "triggers": [{**WEEKLY, "input": {"x": 1}}]}
    package = load(tmp_path, orchestrator=orchestrator, triggers=empty)

    assert len(package.triggers) == 1
    assert [(finding.code, finding.path) for finding in of_file(package, "orchestrator")] == [
        ("unknown_input", "triggers[0]")
    ]
    assert of_file(package, "triggers") == []


@pytest.mark.parametrize("written", [[WEEKLY], {"triggers": [WEEKLY]}, {"trigers": [WEEKLY]}])
def test_a_triggers_file_with_something_is_a_second_place(tmp_path: Path, written: Any) -> None:
    orchestrator = {"workflow_name": "S", "initial_agent": "A", "triggers": [WEEKLY]}
    assert "two_files" in {
        finding.code for finding in load(tmp_path, orchestrator=orchestrator, triggers=written).findings
    }


def test_damage_names_its_line_once(tmp_path: Path) -> None:
    inspection = inspect_package(write_package(tmp_path, tools="tools:\n  - a: b: c\n"))

    (finding,) = [finding for finding in locate_findings(inspection.findings, tmp_path) if finding.code == "unreadable"]
    assert str(finding).startswith("error: tools.yaml: line 2, column 9: ")
