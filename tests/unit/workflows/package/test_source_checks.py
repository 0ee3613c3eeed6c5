"""Checks of sources: unreadable values, cycles, and queries without an app."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.workflows.normal_form import FindingKey, V, findings_of, messages, package, states, variables
from workflows.package.normal_form.package_model import Package
from workflows.package.normal_form.variable_sources import (
    ComputedSource,
    DatabaseSource,
    EntitySource,
    EnvSource,
    ExternalSource,
    RuntimeSource,
    Source,
    WriteTarget,
)

AT_V = (V, "definitions.v")


def package_with_source(source: Source, *, required: bool = False, **parts: Any) -> Package:
    one = variables(v=source)
    return package(variables={"v": replace(one["v"], required=required), **parts.pop("others", {})}, **parts)


def database(**query: Any) -> DatabaseSource:
    return DatabaseSource("d", "c", query, ("f",))


def make_computed(**inputs: str) -> ComputedSource:
    return ComputedSource("x", inputs)


def target(search_by: str) -> WriteTarget:
    return WriteTarget("d", "c", search_by, "on_success", "f")


@pytest.mark.parametrize(
    ("checked", "finding"),
    [
        (package_with_source(database(kind="a")), ("warning", "no_tenant_key", *AT_V)),
        (package_with_source(database(app_id="{{app_id}}", x="{{no}}")), ("warning", "unknown_placeholder", *AT_V)),
        (
            package_with_source(database(app_id="{{app_id}}", x=["${no}"]), required=True),
            ("error", "unknown_placeholder", *AT_V),
        ),
        (
            package_with_source(database(app_id="{{app_id}}", x="{{trigger}}")),
            ("warning", "unknown_placeholder", *AT_V),
        ),
        (package_with_source(ExternalSource("https://h/{{no}}")), ("warning", "unknown_placeholder", *AT_V)),
        (
            package_with_source(ExternalSource("https://h", {"X": "${no}"}), required=True),
            ("error", "unknown_placeholder", *AT_V),
        ),
        (package_with_source(EntitySource("d", "c", "no", ("f",))), ("warning", "unknown_placeholder", *AT_V)),
        (package_with_source(ComputedSource(persist_to=target("no"))), ("warning", "unknown_placeholder", *AT_V)),
        (package_with_source(make_computed(a="no")), ("warning", "undefined_variable", *AT_V)),
        (package_with_source(make_computed(a="v")), ("error", "computed_cycle", *AT_V)),
        (package_with_source(EnvSource("X"), required=True), ("info", "required_in_production", *AT_V)),
    ],
)
def test_a_source_that_gives_nothing_is_found(checked: Package, finding: FindingKey) -> None:
    assert findings_of(checked) == [finding]


@pytest.mark.design("D4-42")
@pytest.mark.parametrize(("computation", "is_a_name"), [("no", True), ("no.part", False), ("sum([no])", False)])
def test_a_bare_name_that_nothing_has_may_be_meant_as_a_function(computation: str, is_a_name: bool) -> None:
    [message] = messages(package_with_source(ComputedSource(computation, {"no": "no"})), "undefined_variable")

    assert message.startswith("is computed from no, which is neither a variable nor an input; define it")
    assert message.endswith("compute the value in a tool or a lifecycle tool, and set it there") is is_a_name


@pytest.mark.parametrize(
    "checked",
    [
        package_with_source(database(enterprise_id="{{runtime.enterprise_id}}"), required=True),
        package_with_source(
            database(app_id="${app_id}", _id="{{order}}"), required=True, orchestrator={"inputs": {"order": {}}}
        ),
        package_with_source(ExternalSource("https://h/{{chat_id}}")),
        package_with_source(EntitySource("d", "c", "user_id", ("f",), target("user_id"))),
        package_with_source(ComputedSource(persist_to=target("key")), orchestrator={"inputs": {"key": {}}}),
        package_with_source(ComputedSource(persist_to=target("r")), others=variables(r=RuntimeSource())),
        package_with_source(database(app_id="{{app_id}}", x="{{r.key}}"), others=variables(r=RuntimeSource())),
        package_with_source(make_computed(a="w", b="app_id"), others=states("w")),
        package_with_source(make_computed(a="w"), others={**variables(w=make_computed(a="u")), **states("u")}),
        package_with_source(ComputedSource(None, {"a": "v"})),  # a tool writes it: nothing is computed
        package_with_source(EnvSource("X")),
    ],
)
def test_a_source_that_can_be_read_is_no_finding(checked: Package) -> None:
    assert findings_of(checked) == []
    assert findings_of(checked, production=True) == []


def test_the_tenant_key_finding_explains_its_absence() -> None:
    (message,) = messages(package_with_source(database(kind="a")), "no_tenant_key")
    assert "documents without an app id are read by every app" in message


def test_a_circle_of_computed_variables_is_named_once() -> None:
    checked = package(
        variables={
            **variables(a=make_computed(x="b"), b=make_computed(x="c"), c=make_computed(x="a"), d=make_computed(x="a"))
        }
    )

    assert findings_of(checked) == [("error", "computed_cycle", V, "definitions.a")]
    assert messages(checked, "computed_cycle")[0].startswith("a, b and c are computed from each other")


def test_a_required_environment_value_refuses_the_package_in_production() -> None:
    checked = package_with_source(EnvSource("X"), required=True)
    assert findings_of(checked, production=True) == [("error", "required_in_production", *AT_V)]
