"""Computed variables: order, cycles, faults, production, and results of their own."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.contexts import context_of, package, values_of
from tests.unit.workflows.packages import load
from workflows.context.context_variables import ContextVariables
from workflows.context.reads.computed_values import recompute_variables
from workflows.context.values.size_limits import MAX_VALUE_BYTES
from workflows.package.normal_form.package_model import Package, Variable
from workflows.package.normal_form.variable_sources import ComputedSource


def package_with_computed(folder: Path, **computed: tuple[str, Mapping[str, str]]) -> Package:
    """Makes a package directly: the reader would refuse a cycle."""
    variables = {
        name: Variable(name, "string", ComputedSource(text, inputs)) for name, (text, inputs) in computed.items()
    }
    return replace(load(folder), variables=variables)


def logged_names(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [
        (vars(each)["variable"], vars(each)["reason"])
        for each in caplog.records
        if each.getMessage() == "computed_value_missing"
    ]


@pytest.mark.design("D1-74")
async def test_a_value_is_computed_from_what_was_loaded(tmp_path: Path) -> None:
    total = {"type": "computed", "computation": "sum(prices)", "inputs": ["prices"], "as": "number"}

    values = await values_of(package(tmp_path, {"prices": {}}, total=total), {"prices": [1, 2.5]})

    assert values["total"] == 3.5


async def test_computed_values_may_use_each_other_in_any_order_of_writing(tmp_path: Path) -> None:
    package = package_with_computed(
        tmp_path,
        last=("join('-', [a, b])", {"a": "middle", "b": "app"}),
        middle=("to_string(n)", {"n": "first"}),
        first=("length(list)", {"list": "list"}),
    )
    context = ContextVariables({"list": [1, 2], "app": "acme"})

    recompute_variables(package, context)

    assert (context["first"], context["middle"], context["last"]) == (2, "2", "2-acme")


async def test_a_circle_has_no_value_and_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    package = package_with_computed(
        tmp_path, a=("x", {"x": "b"}), b=("x", {"x": "a"}), own=("x", {"x": "own"}), fine=("x", {"x": "y"})
    )
    context = ContextVariables({"y": 1})

    recompute_variables(package, context)

    assert {name: context[name] for name in ("a", "b", "own", "fine")} == {"a": None, "b": None, "own": None, "fine": 1}
    assert logged_names(caplog) == [(name, "computed in a circle") for name in ("a", "b", "own")]


class HostileValue:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("canary")

    __hash__ = None  # type: ignore[assignment]  # -- such objects exist

    def __str__(self) -> str:
        raise RuntimeError("canary")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sum(x)", ["a"]),
        ("unknown(x)", 1),
        ("x ||", 1),
        ("x == y", HostileValue()),
        ("x", HostileValue()),
        ("|".join(["[x,x]"] + ["[@,@]"] * 40), "doubled"),
        ("x", "x" * (MAX_VALUE_BYTES + 1)),
    ],
)
async def test_an_uncomputable_value_is_none_and_logged_without_values(
    tmp_path: Path, expression: str, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    context = ContextVariables({"x": value, "c": "from before"})

    recompute_variables(package_with_computed(tmp_path, c=(expression, {"x": "x", "y": "x"})), context)

    assert context["c"] is None
    assert [name for name, _ in logged_names(caplog)] == ["c"]
    assert "canary" not in str([vars(record) for record in caplog.records])


async def test_what_is_not_there_yet_is_the_default_and_no_news(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spec = package(
        tmp_path, n={"type": "computed", "computation": "length(items)", "inputs": ["items"], "default": [0]}
    )
    context = ContextVariables({"items": None})

    recompute_variables(spec, context)
    context["n"].append(1)
    recompute_variables(spec, context)

    assert context["n"] == [0]
    assert logged_names(caplog) == []


async def test_a_result_is_plain_json_of_its_own(tmp_path: Path) -> None:
    context = ContextVariables({"x": {"a": [1]}})

    recompute_variables(package_with_computed(tmp_path, c=("x.a", {"x": "x"})), context)
    context["c"].append(2)

    assert context["x"] == {"a": [1]}


async def test_it_follows_its_inputs(tmp_path: Path) -> None:
    package = package_with_computed(tmp_path, c=("x == 'paid'", {"x": "x"}))
    context = ContextVariables({"x": "new"})
    recompute_variables(package, context)
    assert context["c"] is False

    context["x"] = "paid"
    recompute_variables(package, context)

    assert context["c"] is True


async def test_production_computes_from_no_environment_variable_of_any_source(tmp_path: Path) -> None:
    region = {"type": "environment", "env_var": "REGION"}
    computed = {"type": "computed", "computation": "not_null(r, 'absent')", "inputs": {"r": "region"}}
    declared = package(tmp_path, {"region": {}}, region=region, seen=computed)

    context = await context_of(declared, {"region": "canary"}, production=True)
    assert context.variables["seen"] == "absent"

    context.variables["region"] = "canary"
    recompute_variables(declared, context.variables, context.suppressed)
    assert context.variables["seen"] == "absent"


async def test_no_computed_value_replaces_the_identity_of_the_run(tmp_path: Path) -> None:
    context = ContextVariables({"app_id": "acme", "x": "globex"})

    recompute_variables(package_with_computed(tmp_path, app_id=("x", {"x": "x"})), context)

    assert context["app_id"] == "acme"


async def test_without_a_computation_a_tool_writes_the_value(tmp_path: Path) -> None:
    declared = package(tmp_path, total={"type": "computed", "default": 1, "as": "integer"})
    context = (await context_of(declared)).variables
    assert context["total"] == 1

    context["total"] = 5
    recompute_variables(declared, context)

    assert context["total"] == 5
