"""Dialects: the same package in every form."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.packages import ORCHESTRATOR, TOOL, errors, faults, load, write_package, write_tool
from workflows.package.catalog import LIBRARY
from workflows.package.loader import load_package
from workflows.package.normal_form.package_model import Package


@pytest.mark.parametrize("name", ["DailyDigest", "IssueTriage", "LeadIntake", "OrderFollowUp"])
def test_the_packages_we_ship_load_without_a_finding(name: str) -> None:
    package = load_package(LIBRARY / name)
    assert (package.name, package.findings) == (name, ())


@pytest.mark.parametrize(
    "agents",
    [
        [{"name": "A", "system_message": "x"}, {"agent_name": "B"}],
        {"agents": [{"name": "A", "system_message": "x"}, {"name": "B"}]},
        {"A": {"system_message": "x"}, "B": {}},
        {"agents": {"A": {"system_message": "x"}, "B": {"name": "B"}}},
        {"agents": {"ignored-key": {"name": "A", "system_message": "x"}, "B": {}}},
    ],
)
def test_agents_are_a_list_or_a_mapping_bare_or_wrapped(tmp_path: Path, agents: Any) -> None:
    package = load(tmp_path, agents=agents)

    assert not package.is_refused, package.findings
    assert list(package.agents) == ["A", "B"]
    assert package.agents["A"].system_message == "x"


@pytest.mark.parametrize(
    ("agent", "prompt"),
    [
        (
            {"prompt_sections": [{"heading": "[R]", "content": "one"}, {"content": None}, {"content": "two"}]},
            "[R]\none\n\ntwo",
        ),
        ({"prompt_sections": {"instructions": {"content": "2"}, "role": {"content": "1"}, "x": "3"}}, "1\n\n2\n\n3"),
        ({"prompt_sections": [{"content": "1"}], "prompt_sections_custom": [{"content": "2"}]}, "1\n\n2"),
        ({"system_message": "plain"}, "plain"),
        ({"system_message": "plain", "prompt_sections": []}, "plain"),
        ({}, ""),
        ({"prompt_sections": [{"content": "{{PATTERN_GUIDANCE_AND_EXAMPLES}}"}]}, "{{PATTERN_GUIDANCE_AND_EXAMPLES}}"),
    ],
)
def test_a_prompt_is_its_sections_in_order(tmp_path: Path, agent: dict[str, Any], prompt: str) -> None:
    package = load(tmp_path, agents=[{"name": "A", **agent}])

    assert not package.is_refused, package.findings
    assert package.agents["A"].system_message == prompt


@pytest.mark.design("D4-47")
@pytest.mark.parametrize(
    "exposed",
    [
        {"A": {"variables": ["v", "app_id"]}},
        {"A": ["v", "app_id"]},
        [{"agent_name": "A", "variables": ["v", "app_id"]}],
        [{"agent": "A", "variables": ["v", "app_id"]}],
        [{"name": "A", "variables": ["v"]}, {"name": "A", "variables": ["v", "app_id"]}],
    ],
)
def test_exposures_have_three_forms(tmp_path: Path, exposed: Any) -> None:
    package = load(tmp_path, context_variables={"definitions": {"v": {"source": {"type": "state"}}}, "agents": exposed})

    assert faults(package) == []
    assert package.exposures == {"A": ("v", "app_id")}


@pytest.mark.design("D4-43")
@pytest.mark.parametrize(
    "definitions",
    [
        {"v": {"type": "bool", "source": {"type": "state", "default": False}}},
        [{"name": "v", "type": "boolean", "source": {"type": "derived", "initial": False}}],
    ],
)
def test_definitions_are_a_mapping_or_a_list(tmp_path: Path, definitions: Any) -> None:
    package = load(tmp_path, context_variables={"definitions": definitions})

    assert faults(package) == []
    variable = package.variables["v"]
    assert (variable.kind, variable.type, variable.default) == ("state", "boolean", False)


@pytest.mark.parametrize(
    ("taxonomies", "kind"),
    [
        ([{"type": "environment", "env_var": "X"}, {"type": "config", "env_var": "X"}], "env"),
        (
            [
                {"type": "database", "database": "d", "collection": "c", "search_by": "app_id", "field": "f"},
                {
                    "type": "data_reference",
                    "database_name": "d",
                    "collection": "c",
                    "query_template": {"app_id": "{{runtime.app_id}}"},
                    "fields": ["f"],
                },
            ],
            "db",
        ),
        ([{"type": "static", "value": None}], "static"),
        ([{"type": "derived"}, {"type": "state"}], "state"),
        ([{"type": "runtime"}, {"type": "build_context"}], "runtime"),
    ],
)
def test_both_taxonomies_are_one_internal_form(tmp_path: Path, taxonomies: list[dict[str, Any]], kind: str) -> None:
    package = load(
        tmp_path,
        context_variables={"definitions": {f"v{n}": {"source": source} for n, source in enumerate(taxonomies)}},
    )

    assert faults(package) == []
    forms = [replace(variable, name="v") for variable in package.variables.values()]
    assert all(form == forms[0] for form in forms)
    assert forms[0].kind == kind


def routed_package(tmp_path: Path, rules: Any, stem: str = "handoffs", **orchestrator: Any) -> Package:
    files: dict[str, Any] = {stem: rules, "orchestrator": {**ORCHESTRATOR, **orchestrator}}
    return load(tmp_path, **files, context_variables={"definitions": {"v": {"source": {"type": "runtime"}}}})


@pytest.mark.parametrize(
    ("stem", "rules"),
    [
        ("handoffs", {"handoff_rules": [{"source_agent": "A", "target_agent": "B", "handoff_type": "after_work"}]}),
        ("handoffs", {"handoffs": {"handoff_rules": [{"source_agent": "A", "target_agent": "B"}]}}),
        ("handoffs", {"handoffs": [{"from": "A", "to": "B"}]}),
        (
            "transition_graph",
            {"transition_rules": [{"source_agent": "A", "target_agent": "B", "transition_type": "after_turn"}]},
        ),
        (
            "handoffs",
            {
                "handoff_rules": [
                    {"source_agent": "A", "target_agent": "B", "transition_target": "AgentTarget", "condition": None}
                ]
            },
        ),
    ],
)
def test_routing_files_have_several_roots(tmp_path: Path, stem: str, rules: Any) -> None:
    package = routed_package(tmp_path, rules, stem)

    assert faults(package) == []
    assert [(rule.source, rule.target, rule.condition) for rule in package.rules] == [("A", "B", None)]


@pytest.mark.parametrize(
    ("rule", "condition", "scope"),
    [
        (
            {"handoff_type": "condition", "condition_type": "expression", "condition": "${v} == true"},
            "${v} == true",
            "post",
        ),
        (
            {"transition_type": "condition", "condition_type": "context_expression", "context_expression": "${v}"},
            "${v}",
            "post",
        ),
        ({"handoff_type": "condition", "condition": "${v}", "condition_scope": "pre"}, "${v}", "pre"),
        ({"handoff_type": "condition", "condition": "${v}", "condition_scope": "after"}, "${v}", "post"),
        ({"handoff_type": "condition", "condition": True}, "True", "post"),
        ({"handoff_type": "condition", "condition": False}, "False", "post"),
        (
            {
                "transition_type": "condition",
                "condition_type": "context_equals",
                "condition_key": "v",
                "condition_value": "it's",
            },
            '${v} == "it\'s"',
            "post",
        ),
        ({"transition_type": "condition", "condition_key": "v", "condition_value": True}, "${v} == True", "post"),
        (
            {"transition_type": "condition", "condition_type": "context_equals", "condition_key": "v"},
            "${v} == None",
            "post",
        ),
    ],
)
def test_conditions_have_one_internal_form(tmp_path: Path, rule: dict[str, Any], condition: str, scope: str) -> None:
    package = routed_package(tmp_path, {"handoff_rules": [{"source_agent": "A", "target_agent": "B", **rule}]})

    assert [finding.code for finding in faults(package)] == (["waits_for_ever"] if condition == "False" else [])
    assert [(each.condition, each.scope) for each in package.rules] == [(condition, scope)]


@pytest.mark.parametrize(
    ("written", "target"),
    [
        ("terminate", "terminate"),
        ("TERMINATE", "terminate"),
        ("end", "terminate"),
        ("user_proxy", "user"),
        ("Human", "user"),
    ],
)
def test_targets_have_other_names(tmp_path: Path, written: str, target: str) -> None:
    package = routed_package(tmp_path, {"handoff_rules": [{"source_agent": "A", "target_agent": written}]})

    assert faults(package) == []
    assert package.rules[0].target == target


@pytest.mark.parametrize(("pattern", "chosen"), [("DefaultPattern", "B"), ("ag2_network", "terminate")])
def test_of_two_routing_files_the_pattern_chooses(tmp_path: Path, pattern: str, chosen: str) -> None:
    write_package(tmp_path, transition_graph={"transition_rules": [{"from": "A", "to": "terminate"}]})

    package = routed_package(tmp_path, {"handoff_rules": [{"from": "A", "to": "B"}]}, orchestration_pattern=pattern)

    assert [rule.target for rule in package.rules] == [chosen]
    assert [(finding.level, finding.code) for finding in faults(package)] == [("warning", "ignored_file")]


@pytest.mark.parametrize(
    "tools",
    [
        [{"agent": "A", "file": "greet.py", "function": "greet"}],
        {"tools": [{"agent": ["A"], "file": "tools/greet.py", "function": "greet"}], "lifecycle_tools": []},
    ],
)
def test_tools_are_a_list_bare_or_named(tmp_path: Path, tools: Any) -> None:
    file = write_tool(tmp_path, "greet.py", TOOL)

    package = load(tmp_path, tools=tools)

    assert faults(package) == []
    assert [(tool.agents, tool.file, tool.function) for tool in package.tools] == [(("A",), file, "greet")]


def test_a_shared_tool_comes_from_beside_the_package(tmp_path: Path) -> None:
    shared = tmp_path / "_shared" / "greet.py"
    shared.parent.mkdir()
    shared.write_text(TOOL)

    package = load(tmp_path / "P", tools=[{"agent": "A", "file": "../_shared/greet.py", "function": "greet"}])

    assert faults(package) == []
    assert package.tools[0].file == shared


@pytest.mark.parametrize("word", [True, "true", "YES", 1, "on"])
def test_a_flag_has_many_spellings(tmp_path: Path, word: object) -> None:
    assert load(tmp_path, orchestrator={**ORCHESTRATOR, "human_in_the_loop": word}).orchestrator.human_in_the_loop


@pytest.mark.parametrize("alias", ["initial_agent", "recipient", "initiating_agent"])
def test_the_first_agent_has_several_field_names(tmp_path: Path, alias: str) -> None:
    package = load(tmp_path, orchestrator={"workflow_name": "Small", alias: "B"})

    assert faults(package) == []
    assert package.orchestrator.initial_agent == "B"


def test_turns_are_limited_beside_or_inside_limits(tmp_path: Path) -> None:
    outside = load(tmp_path / "a", orchestrator={**ORCHESTRATOR, "max_turns": 7})
    inside = load(tmp_path / "b", orchestrator={**ORCHESTRATOR, "max_turns": 7, "limits": {"max_turns": 3}})

    assert (outside.orchestrator.limits.max_turns, inside.orchestrator.limits.max_turns) == (7, 3)
    assert not errors(outside)
    assert not errors(inside)


def test_triggers_stand_in_a_file_of_their_own_or_in_the_orchestrator(tmp_path: Path) -> None:
    schedule = {"type": "cron", "cron": "0 6 * * 1", "apps": ["acme"]}
    own = load(tmp_path / "a", triggers={"triggers": [schedule]})
    bare = load(tmp_path / "b", triggers=[schedule])
    inside = load(tmp_path / "c", orchestrator={**ORCHESTRATOR, "triggers": [schedule]})

    assert own.triggers == bare.triggers == inside.triggers
    assert [trigger.name for trigger in own.triggers] == ["schedule-0"]
    assert faults(own) == faults(bare) == faults(inside) == []


def test_an_agents_file_may_be_json_among_yaml(tmp_path: Path) -> None:
    write_package(tmp_path, agents=None)
    (tmp_path / "agents.json").write_text('{"agents": {"A": {"system_message": "You are A."}}}')

    assert load_package(tmp_path).findings == ()
