"""Checks of names: in exposures, in prompts and in conditions."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.normal_form import (
    ORCH,
    G,
    H,
    Said,
    V,
    agents,
    found,
    messages,
    package,
    rules,
    states,
    variables,
)
from workflows.package.checks.names import prompt_names
from workflows.package.models import Hook, Package
from workflows.package.sources import (
    DatabaseSource,
    EntitySource,
    EnvSource,
    ExternalSource,
    FileSource,
    RuntimeSource,
    Source,
    StaticSource,
)

AT_A = (G, "agents.A")
AT_RULE = (H, "handoff_rules[0]")
DB = DatabaseSource("d", "c", {"app_id": "{{app_id}}"}, ("f",))


def prompted(prompt: str, **parts: Any) -> Package:
    return package(agents={**agents("B"), **agents(A=prompt)}, variables=states("seen", "hidden"), **parts)


def conditional(condition: str, **parts: Any) -> Package:
    return package(rules=rules(f"A > B if {condition}", "A > B", "B > terminate"), **parts)


@pytest.mark.parametrize(
    ("exposed", "finding"),
    [
        ({"C": ()}, ("warning", "unknown_agent", V, "agents.C")),
        ({"A": ("no",)}, ("warning", "undefined_variable", V, "agents.A")),
    ],
)
def test_an_exposure_of_nothing_is_found(exposed: dict[str, tuple[str, ...]], finding: Said) -> None:
    assert found(package(exposed=exposed)) == [finding]


def test_variables_inputs_and_base_facts_can_be_exposed() -> None:
    checked = package(
        variables=states("v"), orchestrator={"inputs": {"region": {}}}, exposed={"A": ("v", "region", "app_id")}
    )
    assert found(checked) == []


@pytest.mark.parametrize(
    ("prompt", "code"),
    [
        ("Use {{ hidden }}.", "not_exposed"),
        ("Use ${hidden}.", "not_exposed"),
        ("Use {{runtime.app_id}}.", "not_exposed"),
        ("Use {{context_variables.hidden}}.", "not_exposed"),
        ("Use {{nothing}} twice: {{nothing}}.", "unknown_in_prompt"),
        ("```\n{{nothing}}\n```\nUse {{nothing}}", "unknown_in_prompt"),
    ],
)
def test_a_prompt_that_names_what_its_agent_cannot_see_is_found_once(prompt: str, code: str) -> None:
    assert found(prompted(prompt)) == [("warning", code, *AT_A)]


@pytest.mark.parametrize(
    "prompt",
    [
        "Use {{seen}} and ${seen}.",
        "{{PATTERN_GUIDANCE_AND_EXAMPLES}} ${HOME_2}",
        "```python\nf'{{nothing}} ${nothing}'\n```",
        "Write {name}, { {nothing} }, {{two words}}, ${a.b}, {{}} and ${}.",
        "the variable hidden",
    ],
)
def test_what_a_prompt_may_say_is_no_finding(prompt: str) -> None:
    assert found(prompted(prompt, exposed={"A": ("seen",)})) == []


@pytest.mark.parametrize(("agent", "said"), [("A", 0), ("all", 0), ("B", 1)])
def test_a_prompt_that_a_hook_rewrites_is_left_to_it(agent: str, said: int) -> None:
    hook = Hook("update_agent_state", agent, Path("h.py"), "h")
    assert len(found(prompted("Use {{nothing}}.", hooks=(hook,)))) == said


def test_prompts_are_searched_in_linear_time() -> None:
    assert prompt_names("{{ " * 200_000 + "${" * 200_000 + "{{" + "a" * 400_000) == []


@pytest.mark.parametrize(
    ("condition", "source", "code"),
    [
        ("${no}", None, "undefined_variable"),
        ("${v} == 1", DB, "routing_on_data"),
        ("${v} == 1", EntitySource("d", "c", "user_id", ("f",)), "routing_on_data"),
        ("${v} == 1", StaticSource(), "routing_on_data"),
        ("${v} == 1", ExternalSource("https://h/p"), "routing_on_data"),
        ("${v} == 1", FileSource("data/x.json"), "routing_on_data"),
        ("not ${v}", EnvSource("X"), "vanishes_in_production"),
        ("${v.part.of_it} == 1", DB, "routing_on_data"),
        ("${no.part} == 1", None, "undefined_variable"),
        ("${context_aware}", None, "vanishes_in_production"),
    ],
)
def test_a_condition_on_a_name_that_does_not_carry_is_found(condition: str, source: Source | None, code: str) -> None:
    checked = conditional(condition, variables=variables(v=source) if source else {})

    assert found(checked) == [("warning", code, *AT_RULE)]
    assert found(checked, production=True) == found(checked)


def test_checked_for_production_the_message_says_so() -> None:
    checked = conditional("${v}", variables=variables(v=EnvSource("X")))

    assert "in production this condition is false" in messages(checked, "vanishes_in_production")[0]
    assert "checked for production" in messages(checked, "vanishes_in_production", production=True)[0]


@pytest.mark.parametrize(
    "condition", ["${v}", "${v.part} == 1", "${region} == 'eu'", "${trigger} != None", "${", "${r} == 1"]
)
def test_conditions_on_state_inputs_and_facts_are_no_finding(condition: str) -> None:
    checked = conditional(
        condition,
        variables={**states("v"), **variables(r=RuntimeSource())},
        orchestrator={"inputs": {"region": {}}},
    )
    assert found(checked) == []


@pytest.mark.parametrize(("key", "said"), [("why", 0), ("no", 1), (None, 0)])
def test_what_explains_a_failure_is_a_variable(key: str | None, said: int) -> None:
    checked = package(variables=states("why"), orchestrator={"failure_message_key": key})
    assert found(checked) == [("warning", "undefined_variable", ORCH, "failure_message_key")] * said
