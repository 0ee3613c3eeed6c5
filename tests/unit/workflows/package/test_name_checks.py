"""Checks of names in exposures and in conditions."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.normal_form import (
    ORCH,
    FindingKey,
    H,
    V,
    findings_of,
    messages,
    package,
    rules,
    states,
    tool,
    variables,
)
from tests.unit.workflows.packages import ORCHESTRATOR, load
from workflows.package.checks.routing.condition_checks import check_judged_rules
from workflows.package.findings import Findings
from workflows.package.normal_form.package_model import Package, Rule
from workflows.package.normal_form.variable_sources import (
    ComputedSource,
    DatabaseSource,
    EntitySource,
    EnvSource,
    ExternalSource,
    FileSource,
    RuntimeSource,
    Source,
    StaticSource,
)

AT_RULE = (H, "handoff_rules[0]")
DB = DatabaseSource("d", "c", {"app_id": "{{app_id}}"}, ("f",))


def conditional(condition: str, **parts: Any) -> Package:
    return package(rules=rules(f"A > B if {condition}", "A > B", "B > terminate"), **parts)


@pytest.mark.parametrize(
    ("exposed", "finding"),
    [
        ({"C": ()}, ("warning", "unknown_agent", V, "agents.C")),
        ({"A": ("no",)}, ("warning", "undefined_variable", V, "agents.A")),
    ],
)
def test_an_exposure_of_nothing_is_found(exposed: dict[str, tuple[str, ...]], finding: FindingKey) -> None:
    assert findings_of(package(exposures=exposed)) == [finding]


def test_a_place_that_the_reader_gave_is_used() -> None:
    checked = package(exposures={"A": ("no",), "C": ()}, exposure_places={"A": "agents[2]", "C": "agents[0]"})
    assert [path for *_, path in findings_of(checked)] == ["agents[2]", "agents[0]"]


@pytest.mark.design("D1-55")
def test_variables_inputs_and_base_facts_can_be_exposed() -> None:
    checked = package(
        variables=states("v"), orchestrator={"inputs": {"region": {}}}, exposures={"A": ("v", "region", "app_id")}
    )
    assert findings_of(checked) == []


@pytest.mark.design("D1-15", "D1-37", "D1-41")
@pytest.mark.parametrize(
    ("condition", "source", "code"),
    [
        ("not ${no}", None, "undefined_variable"),
        ("${no} or ${run_id}", None, "undefined_variable"),
        ("${v} == 1", DB, "routing_on_data"),
        ("${v} == 1", EntitySource("d", "c", "user_id", ("f",)), "routing_on_data"),
        ("not ${v}", StaticSource(), "routing_on_data"),
        ("${v} == 1", ExternalSource("https://h/p"), "routing_on_data"),
        ("${v} == 1", FileSource("data/x.json"), "routing_on_data"),
        ("not ${v}", EnvSource("X"), "vanishes_in_production"),
        ("${v.part.of_it} == 1", DB, "routing_on_data"),
        ("${no.part} != 1", None, "undefined_variable"),
        ("${context_aware}", None, "vanishes_in_production"),
    ],
)
@pytest.mark.design("D1-3")
def test_a_condition_on_a_name_that_does_not_carry_is_found(condition: str, source: Source | None, code: str) -> None:
    checked = conditional(condition, variables=variables(v=source) if source else {})

    assert findings_of(checked) == [("warning", code, *AT_RULE)]
    assert findings_of(checked, production=True) == findings_of(checked)


@pytest.mark.design("D1-3")
@pytest.mark.parametrize("source", [DB, EntitySource("d", "c", "user_id", ("f",))])
@pytest.mark.parametrize(
    ("fields", "codes"), [({"type": "boolean"}, []), ({"enum": ("eu", "us")}, []), ({}, ["routing_on_data"])]
)
def test_a_database_variable_with_few_values_may_be_routed_on(
    source: Source, fields: dict[str, Any], codes: list[str]
) -> None:
    variable = replace(variables(v=source)["v"], **fields)
    found_here = findings_of(conditional("${v} == 'eu' or ${v}", variables={"v": variable}))

    assert [code for _, code, *_ in found_here] == codes


@pytest.mark.parametrize("source", [StaticSource(), ExternalSource("https://h/p"), FileSource("data/x.json")])
def test_other_data_is_not_routed_on_however_few_values_it_has(source: Source) -> None:
    variable = replace(variables(v=source)["v"], type="boolean")
    assert [code for _, code, *_ in findings_of(conditional("not ${v}", variables={"v": variable}))] == [
        "routing_on_data"
    ]


@pytest.mark.parametrize(
    ("sources", "origin"),
    [
        ({"v": ComputedSource("x", {"x": "e"}), "e": EnvSource("X")}, "e"),
        ({"v": ComputedSource("x", {"x": "context_aware"})}, "context_aware"),
        (
            {
                "v": ComputedSource("x && y", {"x": "w", "y": "app_id"}),
                "w": ComputedSource("x", {"x": "u"}),
                "u": ComputedSource("x", {"x": "e"}),
                "e": EnvSource("X"),
            },
            "e",
        ),
    ],
)
def test_a_route_on_what_is_computed_from_the_environment_is_found(sources: dict[str, Source], origin: str) -> None:
    checked = conditional("${v} == 1", variables=variables(**sources))

    assert findings_of(checked) == [("warning", "vanishes_in_production", *AT_RULE)]
    assert f"v is computed from the environment variable {origin}" in messages(checked, "vanishes_in_production")[0]


@pytest.mark.parametrize(
    ("sources", "parts"),
    [
        ({"v": ComputedSource("x", {"x": "d"}), "d": DB}, {}),  # the right way to route on data
        ({"v": ComputedSource(None, {"x": "e"}), "e": EnvSource("X")}, {"tools": (tool("save"),)}),
    ],
)
def test_a_route_on_what_is_computed_from_else_is_no_finding(sources: dict[str, Source], parts: dict[str, Any]) -> None:
    assert findings_of(conditional("${v} == 1", variables=variables(**sources), **parts)) == []


def test_long_chains_of_computed_variables_are_followed_once() -> None:
    many = 2_000  # twice the recursion limit
    chain = {f"c{number}": ComputedSource("x", {"x": f"c{number - 1}"}) for number in range(1, many)}
    computed = variables(**chain, c0=ComputedSource("x", {"x": "e", "y": f"c{many - 1}"}), e=EnvSource("X"))
    checked = package(
        variables=computed, rules=rules(*(f"A > B if ${{c{n}}} == 1" for n in range(many)), "B > terminate")
    )

    assert len(messages(checked, "vanishes_in_production")) == many


def test_checked_for_production_the_message_names_production() -> None:
    checked = conditional("${v}", variables=variables(v=EnvSource("X")))

    assert "is absent in production: this condition is false there" in messages(checked, "vanishes_in_production")[0]
    assert "checked for production" in messages(checked, "vanishes_in_production", production=True)[0]


@pytest.mark.parametrize(
    "condition", ["${v}", "${v.part} == 1", "${region} == 'eu'", "${trigger} != None", "${", "${r} == 1"]
)
def test_conditions_on_state_inputs_and_facts_are_no_finding(condition: str) -> None:
    checked = conditional(
        condition,
        variables={**states("v"), **variables(r=RuntimeSource())},
        tools=(tool("save"),),
        orchestrator={"inputs": {"region": {}}},
    )
    assert findings_of(checked) == []


@pytest.mark.parametrize(("key", "count"), [("why", 0), ("no", 1), (None, 0)])
def test_what_explains_a_failure_is_a_variable(key: str | None, count: int) -> None:
    checked = package(variables=states("why"), orchestrator={"failure_message_key": key})
    assert findings_of(checked) == [("warning", "undefined_variable", ORCH, "failure_message_key")] * count


def test_no_agent_is_called_like_the_manager_of_an_auto_pattern(tmp_path: Path) -> None:
    agents = [{"name": name, "system_message": "You are."} for name in ("A", "group_manager")]
    auto = {**ORCHESTRATOR, "orchestration_pattern": "AutoPattern"}

    taken = load(tmp_path / "a", agents=agents, orchestrator=auto)
    free = load(tmp_path / "b", agents=agents)

    assert [
        (finding.level, finding.code, finding.path) for finding in taken.findings if finding.code == "name_taken"
    ] == [("error", "name_taken", "agents[1]")]
    assert not [finding for finding in free.findings if finding.code == "name_taken"]
    assert (taken.model_aliases, free.model_aliases) == (frozenset({"default"}),) * 2


@pytest.mark.design("D1-17", "D1-66")
@pytest.mark.parametrize(
    ("judged", "codes"),
    [
        ("When the user asks for more", []),
        ("When ${tier} is near", []),
        ("When ${note} is near", ["not_exposed"]),
        ("When ${nothing} is near", ["undefined_variable"]),
        ("In the Sandbox", ["vanishes_in_production"]),
        ("When ${context_aware} holds", ["not_exposed", "vanishes_in_production"]),
    ],
)
@pytest.mark.parametrize("production", [False, True])
def test_names_in_a_judged_rule_are_looked_at(judged: str, codes: list[str], production: bool) -> None:
    checked = package(
        rules=(Rule("A", "B", judgement=judged), *rules("A > B", "B > terminate")),
        variables=variables(sandbox=EnvSource("SANDBOX"), tier=StaticSource(), note=StaticSource()),
        exposures={"A": ("tier",)},
    )

    findings = Findings()
    check_judged_rules(checked, findings, production=production)

    assert [finding.code for finding in findings.all] == codes
    assert {(finding.level, finding.file, finding.path) for finding in findings.all} <= {("warning", *AT_RULE)}


def test_a_judged_rule_of_a_hidden_name_is_no_way_in_production() -> None:
    judged = Rule("A", "B", judgement="in the sandbox")
    checked = package(rules=(judged, *rules("A > terminate")), variables=variables(sandbox=EnvSource("SANDBOX")))

    assert "unreachable_agent" not in {code for _, code, *_ in findings_of(checked)}
    assert "unreachable_agent" in {code for _, code, *_ in findings_of(checked, production=True)}
