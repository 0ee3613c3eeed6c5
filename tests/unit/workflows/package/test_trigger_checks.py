"""Checks of triggers against the inputs and tools of the package."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.normal_form import (
    ORCH,
    FindingKey,
    T,
    findings_of,
    messages,
    package,
    states,
    tool,
    variables,
)
from workflows.package.normal_form.package_model import Package
from workflows.package.normal_form.variable_sources import RuntimeSource
from workflows.package.trigger_specs.form_spec import FormSpec
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec
from workflows.package.trigger_specs.trigger_spec import TriggerSpec

UNKNOWN = ("warning", "unknown_input", T, "triggers")
MISSING = ("warning", "missing_input", T, "triggers")


def schedule(**fields: Any) -> TriggerSpec:
    return ScheduleSpec.model_validate({"name": "nightly", "every": "1h", "apps": ["a"], "input": fields})


def form(*inputs: str, **options: Any) -> TriggerSpec:
    fields: dict[str, Any] = {name: {} for name in inputs}
    return FormSpec.model_validate({"name": "lead", "apps": ["a"], "inputs": fields, "input": options})


def package_with_trigger(*triggers: TriggerSpec, inputs: Any = None, **parts: Any) -> Package:
    return package(triggers=triggers, orchestrator={"inputs": inputs or {}}, **parts)


REQUIRED = {"region": {"required": True}}
RUNTIME = variables(order=RuntimeSource())
RUNTIME_REQUIRED = {"order": replace(RUNTIME["order"], required=True)}


@pytest.mark.parametrize(
    ("checked", "findings"),
    [
        (package_with_trigger(schedule(region="eu")), [UNKNOWN]),
        (package_with_trigger(schedule(v=1), variables=states("v")), [UNKNOWN]),  # a state is not supplied from outside
        (package_with_trigger(schedule(), inputs=REQUIRED), [MISSING]),
        (package_with_trigger(schedule(region=None), inputs=REQUIRED), [MISSING]),
        (package_with_trigger(schedule(), variables=RUNTIME_REQUIRED), [MISSING]),
        (package_with_trigger(form("email"), inputs=REQUIRED), [MISSING]),
        (package_with_trigger(form("region", order="=region"), inputs=REQUIRED, variables=RUNTIME), [MISSING]),
        (package_with_trigger(schedule(region="=x"), schedule(), inputs=REQUIRED), [MISSING]),
    ],
)
def test_inputs_that_do_not_meet_are_found(checked: Package, findings: list[FindingKey]) -> None:
    assert findings_of(checked) == findings


@pytest.mark.parametrize(
    "checked",
    [
        package_with_trigger(schedule(region="eu"), inputs=REQUIRED),
        package_with_trigger(schedule(order="=id"), variables=RUNTIME_REQUIRED),
        package_with_trigger(schedule(), inputs={"region": {"required": True, "default": "eu"}, "rest": {}}),
        package_with_trigger(schedule(), variables={"order": replace(RUNTIME_REQUIRED["order"], default=1)}),
        package_with_trigger(form("region"), inputs=REQUIRED),
        package_with_trigger(form("email", "region"), inputs=REQUIRED),
        package_with_trigger(inputs=REQUIRED),
    ],
)
def test_inputs_that_meet_are_no_finding(checked: Package) -> None:
    assert findings_of(checked) == []


def test_an_answer_that_nothing_asks_for_is_found(tmp_path: Path) -> None:
    file = tmp_path / "form.py"
    file.write_text(
        "from workflows import tools\nasync def form(): await tools.use_ui_tool('Card')\ndef other(): Map()\n"
    )
    asking = (replace(tool("form"), file=file), tool("elsewhere"))
    spec = ScheduleSpec.model_validate(
        {"name": "nightly", "every": "1h", "apps": ["a"], "ui_responses": {"form": {}, "Card": {}, "Map": {"a": 1}}}
    )
    checked = package_with_trigger(spec, tools=asking)

    assert findings_of(checked) == [("warning", "unknown_tool", T, "triggers.ui_responses")]
    assert messages(checked, "unknown_tool")[0].startswith("nightly answers for Map, which is neither a tool")


def test_an_answer_behind_one_for_every_call_is_never_used() -> None:
    yes, small = {"answer": {"verdict": "yes"}}, {"when": "arguments.amount < `5`", "answer": {"verdict": "yes"}}
    answers = {"form": [small, yes, small, yes], "Card": [small, small, yes], "Map": [small]}
    spec = ScheduleSpec.model_validate({"name": "nightly", "every": "1h", "apps": ["a"], "ui_responses": answers})
    checked = package_with_trigger(spec, tools=tuple(map(tool, answers)))

    assert findings_of(checked) == [
        ("warning", "never_answers", T, f"triggers.ui_responses.form[{position}]") for position in (2, 3)
    ]


def test_the_trigger_is_named_and_so_is_the_file_it_stands_in() -> None:
    inside = package_with_trigger(schedule(region="eu"), file_names={"orchestrator": ORCH})

    assert findings_of(inside) == [("warning", "unknown_input", ORCH, "triggers")]
    assert messages(inside, "unknown_input")[0].startswith("nightly supplies region")
