"""Findings of checks across files name the file that was read, and the place in it."""

from pathlib import Path

from tests.unit.workflows.packages import finding_keys, load


def test_transitions_and_entries_of_agents_have_places_of_their_own(tmp_path: Path) -> None:
    says = {"type": "agent_text", "agent": "C", "match": {"equals": "x"}}
    stage = {
        "type": "state",
        "default": "new",
        "transitions": [
            {"to": "done", "trigger": {**says, "agent": "A"}},
            {"from": "gone", "to": "done", "trigger": says},
            {**says, "to": "done"},
        ],
    }
    package = load(
        tmp_path,
        context_variables={
            "definitions": {
                "stage": {"source": stage},
                "early": {"source": {"type": "derived", "triggers": [says]}},
                "single": {"source": {"type": "state", "trigger": says}},
            },
            "agents": [{"agent_name": "A", "variables": ["stage"]}, {"agent": " C ", "variables": ["no"]}],
        },
    )

    definitions, places = "definitions.stage.source.transitions", {each[1:] for each in finding_keys(package)}
    assert {place for code, _, place in places if code == "unknown_agent"} == {
        f"{definitions}[1].trigger",
        f"{definitions}[2]",
        "definitions.early.source.triggers[0]",
        "definitions.single.source.trigger",
        "agents[1]",
    }
    assert {place for code, _, place in places if code == "orphan_state"} == {f"{definitions}[1]"}
    assert {place for code, _, place in places if code == "undefined_variable"} == {"agents[1]"}


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

    assert finding_keys(package) == {
        ("info", "required_in_production", "context_variables.yaml", "definitions[1]"),
        ("warning", "undefined_variable", "context_variables.yaml", "agents.A"),
        ("warning", "vanishes_in_production", "transition_graph.yaml", "transition_rules[0]"),
        ("warning", "no_fallback", "transition_graph.yaml", "transition_rules[0]"),
    }
