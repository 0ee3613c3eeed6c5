"""Checks of prompts: they name only variables that their agents see."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.normal_form import ORCH, G, agents, findings_of, messages, package, states
from tests.unit.workflows.packages import WAYS, load
from workflows.package.checks.prompt_checks import find_braced_names, find_member_names, find_placeholder_names
from workflows.package.normal_form.package_model import Agent, Hook, Package

AT_A = (G, "agents.A")


def package_with_prompt(prompt: str, **parts: Any) -> Package:
    return package(agents={**agents("B"), **agents(A=prompt)}, variables=states("seen", "hidden"), **parts)


@pytest.mark.design("D4-98")
@pytest.mark.parametrize(
    ("prompt", "code"),
    [
        ("Use {{ hidden }}.", "not_exposed"),
        ("Use ${hidden}.", "not_exposed"),
        ("Use {{runtime.app_id}}.", "not_exposed"),
        ("Use {{context_variables.hidden}}.", "not_exposed"),
        ("Use {{nothing}} twice: {{nothing}}.", "unknown_in_prompt"),
        ("```\n{{nothing}}\n```\nUse {{nothing}}", "unknown_in_prompt"),
        ("Assisting {hidden}", "not_exposed"),
        ("It is ({hidden}), twice: {hidden}.", "not_exposed"),
        ("The user's \"plan\" is {hidden}; don't tell.", "not_exposed"),
        ("Enterprise {enterprise_id}", "not_exposed"),
        ("Look at context_variables.nothing, as it is.", "unknown_in_prompt"),
        ("{{context_variables.nothing}} and context_variables.nothing", "unknown_in_prompt"),
    ],
)
def test_a_prompt_that_names_what_its_agent_cannot_see_is_found_once(prompt: str, code: str) -> None:
    assert findings_of(package_with_prompt(prompt)) == [("warning", code, *AT_A)]


@pytest.mark.parametrize(
    "prompt",
    [
        "Use {{seen}} and ${seen}.",
        "{{PATTERN_GUIDANCE_AND_EXAMPLES}} ${HOME_2}",
        "```python\nf'{{nothing}} ${nothing}'\n```",
        "Write {name}, { {nothing} }, {{two words}}, ${a.b}, {{}} and ${}.",
        "the variable hidden",
        "Say {hidden_} or {Hidden} or {nothing} or { hidden } or {hidden.part}.",
        "Say \"Dear {hidden}\", '{hidden}', 'Dear {hidden}', “{hidden}” or `{hidden}`.",
        "GET /orders/{hidden}/items, order-{hidden}, {hidden}/x and {hidden}{hidden}",
        '{"plan": {hidden} }',
        '{\n  "plan":\n  {hidden}\n}',
        "{plan: {hidden} }",
        'The key "plan": {hidden}',
        "```\n{hidden}\n```",
        "context_variables.hidden, context_variables.get('x'), context_variables.set (x), context_variables.json",
        "core.context_variables.nothing and /context_variables.nothing",
    ],
)
def test_an_allowed_prompt_is_no_finding(prompt: str) -> None:
    assert findings_of(package_with_prompt(prompt, exposures={"A": ("seen",)})) == []


@pytest.mark.parametrize(("agent", "count"), [("A", 0), ("all", 0), ("B", 1)])
def test_a_prompt_that_a_hook_rewrites_is_left_to_it(agent: str, count: int) -> None:
    hook = Hook("update_agent_state", agent, Path("h.py"), "h")
    assert len(findings_of(package_with_prompt("Use {{nothing}}.", hooks=(hook,)))) == count


def test_prompts_are_searched_in_linear_time() -> None:
    assert find_placeholder_names("{{ " * 200_000 + "${" * 200_000 + "{{" + "a" * 400_000) == []
    assert find_braced_names(" {" * 200_000 + " {" + "a" * 400_000 + "'a " * 200_000 + "“" * 400_000) == []
    assert find_member_names("context_variables.a (" * 100_000 + "context_variables." + "a" * 400_000) == [
        "a" * 400_000
    ]


@pytest.mark.parametrize("text", ["Write {{hidden}}.", "Write ${nothing}.", "Write {seen}, {seen} and {nothing}."])
def test_nothing_is_filled_in_in_the_first_message(text: str) -> None:
    checked = package_with_prompt("Go on.", orchestrator={"initial_message": text}, exposures={"A": ("seen",)})
    hooked = package_with_prompt(
        "Go on.",
        orchestrator={"initial_message": text},
        hooks=(Hook("process_all_messages_before_reply", "all", Path("h.py"), "h"),),
    )

    assert findings_of(checked) == [("warning", "unknown_placeholder", ORCH, "initial_message")]
    assert "which is not filled" in messages(checked, "unknown_placeholder")[0]
    assert findings_of(hooked) == []


@pytest.mark.parametrize("text", ["Go on.", "Write {nothing} and {{HERE}}.", 'Answer {"seen": "{seen}"}', None])
def test_an_unambiguous_first_message_is_no_finding(text: str | None) -> None:
    assert findings_of(package_with_prompt("Go on.", orchestrator={"initial_message": text})) == []


@pytest.mark.parametrize("prompt", ["", " \n"])
def test_an_agent_without_a_prompt_is_found(prompt: str) -> None:
    assert findings_of(package_with_prompt(prompt)) == [("warning", "no_prompt", *AT_A)]


def test_an_agent_that_needs_no_prompt_is_not() -> None:
    hook = Hook("update_agent_state", "A", Path("h.py"), "h")
    silent = {"A": Agent("A", "", max_consecutive_auto_reply=0)}

    assert findings_of(package_with_prompt("", hooks=(hook,))) == []
    assert findings_of(package(agents={**agents("B"), **silent})) == []


def test_a_misspelt_prompt_is_reported_once(tmp_path: Path) -> None:
    written = [{"name": "A", "sytem_message": "You are A."}, {"name": "B", "colour": "red"}]
    read = load(tmp_path, agents={"agents": written})

    found = [finding for finding in read.findings if finding.code not in WAYS]
    assert [(finding.level, finding.code, finding.path) for finding in found] == [
        ("error", "misspelt_prompt", "agents[0].sytem_message"),
        ("warning", "not_executed", "agents[1].colour"),
        ("warning", "no_prompt", "agents[1]"),
    ]
    assert found[0].message == "is not a prompt field, and the agent has no prompt; did you mean system_message?"
    assert read.is_refused
