"""Document writes: after a turn and at success, and what they may never set."""

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.packages import load
from workflows.context.documents.document_access import DocumentWrite, WriteRefusedError
from workflows.context.documents.document_writes import key_facts, success_writes, turn_writes
from workflows.package.normal_form.package_model import Package, Variable
from workflows.package.normal_form.variable_sources import (
    ComputedSource,
    EntitySource,
    Source,
    StateSource,
    WriteStrategy,
    WriteTarget,
)

FACTS = {"app_id": "acme", "enterprise_id": "acme", "user_id": "u1", "customer_id": 17}


def target(strategy: WriteStrategy = "immediate", *, search_by: str = "customer_id", field: str | None = None) -> Any:
    return WriteTarget("shop", "customers", search_by, strategy, field)


def entity(write: WriteTarget | None, *fields: str) -> EntitySource:
    return EntitySource("shop", "customers", "customer_id", fields or ("name", "email"), write)


@pytest.fixture
def small(tmp_path: Path) -> Package:
    return load(tmp_path / "Small")


def with_variables(package: Package, **sources: Source) -> Package:
    return replace(package, variables={name: Variable(name, "object", source) for name, source in sources.items()})


def document_write(values: Mapping[str, Any], variable: str = "customer") -> DocumentWrite:
    return DocumentWrite(variable, "acme", "shop", "customers", "customer_id", 17, values)


@pytest.mark.design("D4-41")
def test_an_immediate_entity_is_due_after_the_turn_that_changed_it(small: Package) -> None:
    package = with_variables(small, customer=entity(target()), other=StateSource())
    context = {"customer": {"name": "Ada", "email": None}, "other": {"name": "x"}}

    assert turn_writes(package, {"customer", "other"}, context, FACTS) == (
        document_write({"name": "Ada", "email": None}),
    )
    assert turn_writes(package, {"other"}, context, FACTS, is_first_turn=True) == ()
    assert success_writes(package, {"customer"}, context, FACTS) == ()


@pytest.mark.design("D4-41")
def test_an_on_success_entity_is_due_at_the_end_when_the_run_changed_it(small: Package) -> None:
    package = with_variables(small, customer=entity(target("on_success")))
    context = {"customer": {"name": "Ada"}}

    assert turn_writes(package, {"customer"}, context, FACTS, is_first_turn=True) == ()
    assert success_writes(package, {"customer"}, context, FACTS) == (document_write({"name": "Ada"}),)
    assert success_writes(package, set(), context, FACTS) == ()


def test_a_placeholder_never_takes_the_place_of_what_was_hidden(
    small: Package, caplog: pytest.LogCaptureFixture
) -> None:
    package = with_variables(small, customer=entity(target()), site=entity(target(), "url"))
    context = {"customer": {"name": "Ada", "email": {"deep": ["to (hidden)"]}}, "site": {"url": "(hidden)"}}

    assert turn_writes(package, {"customer", "site"}, context, FACTS) == (document_write({"name": "Ada"}),)
    assert [(vars(each)["variable"], vars(each)["fields"]) for each in caplog.records] == [
        ("customer", ["email"]),
        ("site", ["url"]),
    ]


def test_an_entity_without_write_back_is_only_read(small: Package) -> None:
    package = with_variables(small, customer=entity(None))

    assert turn_writes(package, {"customer"}, {"customer": {"name": "Ada"}}, FACTS) == ()


def test_a_computed_value_is_due_once_at_first_and_then_when_it_changed(small: Package) -> None:
    package = with_variables(small, score=ComputedSource("a", {}, target(field="score")))
    owed = (document_write({"score": 5}, "score"),)

    assert turn_writes(package, set(), {"score": 5}, FACTS, is_first_turn=True) == owed
    assert turn_writes(package, set(), {"score": 5}, FACTS) == ()
    assert turn_writes(package, {"score"}, {"score": 5}, FACTS) == owed


def test_a_computed_value_is_due_at_success_though_no_turn_changed_it(small: Package) -> None:
    package = with_variables(small, score=ComputedSource("a", {}, target("on_success", field="score")))

    assert success_writes(package, set(), {"score": 5}, FACTS) == (document_write({"score": 5}, "score"),)


def test_what_was_never_computed_overwrites_nothing(small: Package) -> None:
    package = with_variables(small, score=ComputedSource("a", {}, target("on_success", field="score")))

    assert success_writes(package, set(), {"score": None}, FACTS) == ()
    assert success_writes(package, {"score"}, {"score": None}, FACTS) == (document_write({"score": None}, "score"),)


@pytest.mark.parametrize("context", [{}, {"customer": None}, {"customer": {}}])
def test_without_a_value_there_are_no_fields_to_set(small: Package, context: dict[str, Any]) -> None:
    package = with_variables(small, customer=entity(target()))

    assert turn_writes(package, {"customer"}, context, FACTS) == ()


@pytest.mark.parametrize("value", ["text", 5, ["a"], True])
def test_only_an_object_is_set_field_by_field(small: Package, value: Any) -> None:
    package = with_variables(small, customer=entity(target()))

    with pytest.raises(WriteRefusedError, match=r"customer is not written to shop\.customers: it is not an object"):
        turn_writes(package, {"customer"}, {"customer": value}, FACTS)


def test_a_field_that_the_entity_does_not_declare_is_refused_by_name(small: Package) -> None:
    package = with_variables(small, customer=entity(target()))

    with pytest.raises(
        WriteRefusedError, match=r"customer is not written .* the key 'vip', which is not one of its fields"
    ):
        turn_writes(package, {"customer"}, {"customer": {"name": "Ada", "vip": True}}, FACTS)


@pytest.mark.parametrize("key", ["$set", "a.b", "", "a\x00", 7, None])
def test_a_key_that_is_not_a_field_name_is_refused(small: Package, key: Any) -> None:
    package = with_variables(small, score=ComputedSource(persist_to=target()))

    with pytest.raises(WriteRefusedError, match="is not the name of a field"):
        turn_writes(package, {"score"}, {"score": {key: 1}}, FACTS)


@pytest.mark.parametrize(
    ("key", "value"), [("_id", 1), ("app_id", "globex"), ("enterprise_id", "globex"), ("customer_id", 18)]
)
@pytest.mark.parametrize("by_field", [True, False])
def test_owner_and_key_of_a_document_cannot_be_set(small: Package, key: str, value: Any, by_field: bool) -> None:
    source = ComputedSource(persist_to=target(field=key if by_field else None))
    package = with_variables(small, score=source)

    with pytest.raises(WriteRefusedError, match=f"score .*: {key} identifies the document or its owner"):
        turn_writes(package, {"score"}, {"score": value if by_field else {key: value}}, FACTS)


def test_what_was_read_along_and_is_the_runs_own_is_left_out(small: Package) -> None:
    package = with_variables(small, customer=entity(target(), "name", "app_id", "enterprise_id", "customer_id"))
    context = {"customer": {"name": "Ada", "app_id": "acme", "enterprise_id": None, "customer_id": 17}}

    assert turn_writes(package, {"customer"}, context, FACTS) == (document_write({"name": "Ada"}),)


def test_what_is_written_is_a_copy_that_no_tool_holds(small: Package) -> None:
    package = with_variables(small, customer=entity(target()))
    live: dict[str, Any] = {"name": ["Ada"]}

    [write] = turn_writes(package, {"customer"}, {"customer": live}, FACTS)
    live["name"].append("Byron")

    assert write.values == {"name": ["Ada"]}


def test_what_cannot_be_copied_is_refused(small: Package) -> None:
    package = with_variables(small, customer=entity(target()))

    with pytest.raises(WriteRefusedError, match="it holds an object that is not data"):
        turn_writes(package, {"customer"}, {"customer": {"name": threading.Lock()}}, FACTS)


@pytest.mark.parametrize("value", [None, {"$ne": None}, ["a"], {}])
def test_a_key_without_a_plain_value_is_refused(small: Package, value: Any) -> None:
    package = with_variables(small, customer=entity(target()))

    with pytest.raises(WriteRefusedError, match="customer_id, which finds the document, must be a text"):
        turn_writes(package, {"customer"}, {"customer": {"name": "Ada"}}, {**FACTS, "customer_id": value})


def test_an_operator_as_a_key_is_refused(small: Package) -> None:
    package = with_variables(small, customer=entity(target(search_by="$where")))

    with pytest.raises(WriteRefusedError):
        turn_writes(package, {"customer"}, {"customer": {"name": "Ada"}}, {**FACTS, "$where": "true"})


def test_keys_come_from_declared_inputs_and_no_payload_replaces_run_ids(small: Package) -> None:
    inputs = {"customer_id": {"type": "string", "default": "c0"}, "app_id": {"type": "string"}}
    package = replace(small, orchestrator=replace(small.orchestrator, inputs=inputs))

    facts = key_facts(package, {"app_id": "globex", "undeclared": 1}, {"app_id": "acme"})

    assert facts == {"app_id": "acme", "customer_id": "c0"}
    assert key_facts(package, {"customer_id": "c1"}, {"app_id": "acme"})["customer_id"] == "c1"
