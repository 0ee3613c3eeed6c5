"""Findings of checks across files name the file that was read, and the place that is in it."""

from pathlib import Path

from tests.unit.workflows.packages import load, said


def test_files_and_places_are_those_of_the_author(tmp_path: Path) -> None:
    package = load(
        tmp_path,
        orchestrator={"workflow_name": "Small", "initial_agent": "A", "orchestration_pattern": "ag2_network"},
        context_variables={
            "definitions": [
                {"name": "fine", "source": {"type": "state"}},
                {"name": "flag", "source": {"type": "config", "env_var": "FLAG", "required": True}},
            ],
            "agents": {"A": {"variables": ["no"]}},
        },
        transition_graph={
            "transition_rules": [
                {"source_agent": "A", "target_agent": "B", "condition": "${flag} == true"},
                {"source_agent": "B", "target_agent": "terminate", "transition_type": "after_turn"},
            ]
        },
    )

    assert said(package) == {
        ("info", "required_in_production", "context_variables.yaml", "definitions[1]"),
        ("warning", "undefined_variable", "context_variables.yaml", "agents.A"),
        ("warning", "vanishes_in_production", "transition_graph.yaml", "transition_rules[0]"),
        ("warning", "no_fallback", "transition_graph.yaml", "transition_rules[0]"),
    }
