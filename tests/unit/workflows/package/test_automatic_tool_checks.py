"""Checks of automatic tools: callers of a tool, and structured replies."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.workflows.normal_form import FindingKey, G, agents, findings_of, messages, package, tool
from workflows.package.checks.package_checks import check_automatic_tools
from workflows.package.normal_form.automatic_tools import automatic_tools, is_offered
from workflows.package.normal_form.package_model import Package
from workflows.package.normal_form.structured_outputs import InlineModel, OutputModel, StructuredOutputs

T = "tools.yaml"
M = {"M": OutputModel("M", InlineModel({}))}
OF_A = StructuredOutputs(M, {"A": "M"})
OF_BOTH = StructuredOutputs(M, {"A": "M", "B": "M"})
AUTO: dict[str, Any] = {"auto_tool_mode": True}


def checked_package(*tools: Any, outputs: StructuredOutputs = OF_A, **agent: Any) -> Package:
    """Checks a package. `agent`: fields of the agent A."""
    both = agents("A", "B")
    placed = tuple(replace(tool, place=f"tools[{index}]") for index, tool in enumerate(tools))
    return package(agents={**both, "A": replace(both["A"], **agent)}, tools=placed, outputs=outputs)


NOTHING: list[FindingKey] = []
NOT_BOUND = [("warning", "not_executed", T, "tools[0].bind_to_agent")]
NOT_CALLED = [("warning", "not_executed", T, "tools[0].auto_invoke")]
NO_MODEL = [("error", "missing_model", G, "agents.A.auto_tool_mode")]
NONE = StructuredOutputs()


@pytest.mark.parametrize(
    ("one", "findings"),
    [
        (checked_package(tool("f")), NOTHING),
        (checked_package(tool("f", bound=False)), NOT_BOUND),
        (checked_package(tool("f", auto_invoke=True)), NOT_CALLED),
        (checked_package(tool("f", auto_invoke=True, kind="UI_Tool")), NOTHING),
        (checked_package(tool("f", bound=False, auto_invoke=True)), NOTHING),
        (checked_package(tool("f", bound=False, auto_invoke=True), outputs=NONE), NOT_BOUND),
        (checked_package(tool("f"), **AUTO), NOT_CALLED),
        (checked_package(tool("f", bound=False), **AUTO), NOT_BOUND),
        (checked_package(tool("f", auto_invoke=True), **AUTO), NOTHING),
        (checked_package(tool("f", bound=False, auto_invoke=True), **AUTO), NOTHING),
        (checked_package(tool("f", auto_invoke=True), outputs=NONE, **AUTO), NO_MODEL),
        (checked_package(outputs=NONE, **AUTO), NO_MODEL),
        (
            checked_package(outputs=NONE, structured_outputs_required=True, **AUTO),
            NOTHING,
        ),  # reported at the registry
        (checked_package(**AUTO), NOTHING),
        (checked_package(replace(tool("f", bound=False, auto_invoke=True), agents=("A", "B"))), NOT_BOUND),
        (
            checked_package(replace(tool("f", bound=False, auto_invoke=True), agents=("A", "B")), outputs=OF_BOTH),
            NOTHING,
        ),
        (checked_package(replace(tool("f"), agents=("A", "A", "nobody"))), NOTHING),
    ],
)
def test_a_tool_that_nothing_calls_is_found(one: Package, findings: list[FindingKey]) -> None:
    assert findings_of(one, check_automatic_tools) == findings


def test_it_names_the_agent_without_a_model() -> None:
    shared = replace(tool("f", bound=False, auto_invoke=True), agents=("A", "B"))

    assert messages(checked_package(shared), "not_executed") == [
        "is false, and B has no structured reply to call this tool with: nothing calls it; "
        "add B: <model> to the registry of structured_outputs"
    ]


def test_a_tool_is_automatic_for_one_agent_and_offered_to_another() -> None:
    shared = replace(tool("f", auto_invoke=True), agents=("A", "B"))
    one = checked_package(shared, outputs=OF_BOTH, **AUTO)

    assert [len(automatic_tools(one, name)) for name in ("A", "B")] == [1, 0]
    assert [is_offered(one, name, one.tools[0]) for name in ("A", "B")] == [False, True]
