"""Misspelt names: one finding each, with the intended name."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.packages import errors, finding_keys, load, rule
from workflows.context.expressions.routing_conditions import ConditionError, compile_condition
from workflows.package.findings import Finding, Findings
from workflows.package.normal_form.package_model import Package

ENTITY: dict[str, Any] = {
    "type": "data_entity",
    "database": "shop",
    "collection": "notes",
    "search_by": "user_id",
    "schema": {"text": "string"},
}
REFERENCE: dict[str, Any] = {
    "type": "data_reference",
    "database": "shop",
    "collection": "notes",
    "query": {"app_id": "{{app_id}}"},
    "fields": ["text"],
}


def with_source(folder: Path, source: Any) -> Package:
    return load(folder, context_variables={"definitions": {"v": {"type": "object", "source": source}}})


def of_variable(folder: Path, source: Any) -> list[tuple[str, str, str]]:
    findings = with_source(folder, source).findings
    found = [finding for finding in findings if finding.file == "context_variables.yaml"]
    return [(finding.level, finding.code, finding.path.removeprefix("definitions.v.")) for finding in found]


def only(package: Package, code: str) -> Finding:
    (finding,) = [finding for finding in package.findings if finding.code == code]
    return finding


@pytest.mark.design("D1-23", "D1-59")
def test_an_unknown_field_gets_the_nearest_name_as_a_suggestion(tmp_path: Path) -> None:
    near = only(with_source(tmp_path / "a", {**ENTITY, "write_stratgy": "immediate"}), "not_executed")
    far = only(with_source(tmp_path / "b", {**ENTITY, "colour": "red"}), "not_executed")

    assert near.message == "is not executed; did you mean write_strategy?"
    assert far.message == "is not executed; check the spelling, or remove it"


def test_a_field_that_is_there_is_not_what_was_meant(tmp_path: Path) -> None:
    source = {**ENTITY, "write_strategy": "immediate", "write_stratgy": "immediate"}
    assert "did you mean" not in only(with_source(tmp_path, source), "not_executed").message


def test_a_field_of_a_trigger_too(tmp_path: Path) -> None:
    package = load(tmp_path, triggers=[{"type": "schedule", "apps": ["a"], "every": "1h", "timezon": "UTC"}])
    assert only(package, "bad_trigger").message == "is not a field of this trigger; did you mean timezone?"


def test_suggestions_are_bounded() -> None:
    findings = Findings()
    assert [findings.suggest_name("nam", ["name"]) for _ in range(51)] == ["name"] * 50 + [None]
    assert Findings().suggest_name("n" * 101, ["n" * 100]) is None


def test_an_unknown_source_gets_no_other_finding(tmp_path: Path) -> None:
    source = {**ENTITY, "type": "data_entitty"}
    assert of_variable(tmp_path, source) == [("error", "unknown_source", "source.type")]


def test_an_unknown_trigger_gets_no_other_finding(tmp_path: Path) -> None:
    source = {"type": "state", "triggers": [{"type": "agent_txt", "agent": "A", "match": {"equals": "X"}}]}
    assert of_variable(tmp_path, source) == [("error", "unknown_trigger", "source.triggers[0].type")]


@pytest.mark.parametrize(
    ("body", "place", "hint"),
    [
        ({"agnts": [{"name": "A"}]}, "agnts", "did you mean agents?"),
        ({"schema_version": "v1", "Agent": [{"name": "A"}]}, "Agent", "did you mean agents?"),
        ({"people": [{"name": "A"}]}, "people", "write them under agents"),
        ({"name": "A", "model": "default"}, "agents", "a package requires at least one agent"),
        ({"agents": []}, "agents", "a package requires at least one agent"),
    ],
)
def test_agents_under_another_name_are_one_error(tmp_path: Path, body: Any, place: str, hint: str) -> None:
    package = load(
        tmp_path,
        agents=body,
        handoffs={"handoff_rules": [rule("A", "B"), rule("B", "terminate")]},
        structured_outputs={"models": {}, "registry": {}},
    )

    assert finding_keys(package) == {("error", "no_agents", "agents.yaml", place)}
    assert only(package, "no_agents").message.endswith(hint)


@pytest.mark.parametrize(
    ("text", "word"), [("${stage} == done", "done"), ("stage == 'done'", "stage"), ("order.total > 5", "order.total")]
)
def test_a_bare_word_in_a_condition_is_text_or_a_variable(text: str, word: str) -> None:
    with pytest.raises(ConditionError) as raised:
        compile_condition(text)
    assert str(raised.value) == f"{word} stands alone: write '{word}' for a text, or ${{{word}}} for a variable"


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ({"text": "strng"}, ["text"]),
        ({"text": 5, "other": "string"}, ["text"]),
        ({"a": {"type": "strng"}, "b": {"type": ["string", "null"]}}, ["a"]),
        ({"type": "object", "properties": {"a": {"type": "strng"}}}, ["a"]),
        ({"a": "string", "b": "int", "c": "document", "d": None, "e": {"type": "array"}, "f": {}}, []),
    ],
)
def test_types_of_an_entity_are_known(tmp_path: Path, schema: Any, names: list[str]) -> None:
    found = errors(with_source(tmp_path, {**ENTITY, "schema": schema}))

    assert [(finding.code, finding.path) for finding in found] == [
        ("unknown_type", "definitions.v.source.schema") for _ in names
    ]
    assert [finding.message.partition(" ")[0] for finding in found] == names


def test_types_inside_of_inputs_are_known(tmp_path: Path) -> None:
    inner = {"type": "object", "properties": {"b": {"type": "y"}}, "items": {"type": "z"}}
    inputs = {"a": {"type": "array", "items": {"type": "x"}}, "b": {"type": "array", "items": inner}}
    package = load(tmp_path, orchestrator={"workflow_name": "S", "initial_agent": "A", "inputs": inputs})

    assert [(finding.code, finding.path) for finding in errors(package)] == [
        ("unknown_type", "inputs.a.items.type"),
        ("unknown_type", "inputs.b.items.properties.b.type"),
        ("unknown_type", "inputs.b.items.items.type"),
    ]


@pytest.mark.parametrize(
    ("source", "field"),
    [
        ({**REFERENCE, "database": "admin"}, "source.database"),
        (
            {**{key: value for key, value in REFERENCE.items() if key != "database"}, "database_name": "Local"},
            "source.database_name",
        ),
        ({**ENTITY, "database": "config"}, "source.database"),
        ({**ENTITY, "collection": "system.users"}, "source.collection"),
        (
            {
                "type": "computed",
                "persist_to": {"database": "admin", "collection": "c", "search_by": "app_id", "field": "f"},
            },
            "source.persist_to.database",
        ),
    ],
)
def test_what_belongs_to_the_database_server_is_refused(tmp_path: Path, source: Any, field: str) -> None:
    assert of_variable(tmp_path, source) == [("error", "forbidden_place", field)]


@pytest.mark.parametrize(
    "query",
    [
        {"app_id": "{{app_id}}", "{{user_id}}": 1},
        {"app_id": "{{app_id}}", "a": {"${user_id}": 1}},
        {"app_id": "{{app_id}}", "a": {"$regex": "^{{user_id}}"}},
        {"app_id": "{{app_id}}", "$expr": {"$eq": ["$a", "{{user_id}}"]}},
        {"app_id": "{{app_id}}", "a": ["{{trigger.id}}", "{{trigger}}"]},
    ],
)
def test_a_query_that_no_run_can_send_is_refused(tmp_path: Path, query: Any) -> None:
    assert ("error", "bad_placeholder", "source.query") in of_variable(tmp_path, {**REFERENCE, "query": query})


@pytest.mark.parametrize(
    "query",
    [
        {"app_id": "{{app_id}}", "a": {"$regex": "^x"}, "b": {"$in": ["{{user_id}}", "${ chat_id }"]}},
        {"app_id": "{{ runtime.app_id }}", "a": "x {{run_id}} y", "n": 5},
    ],
)
def test_a_query_that_can_be_filled_is_not(tmp_path: Path, query: Any) -> None:
    assert of_variable(tmp_path, {**REFERENCE, "query": query}) == []


def test_agents_of_task_batches_exist(tmp_path: Path) -> None:
    (tmp_path / "extended_orchestration").mkdir()
    (tmp_path / "extended_orchestration" / "task_batches.yaml").write_text(
        "batches:\n- {id: a, trigger_agent: A, execution_agents: [B, Nobody]}\n- {id: b, decomposition_agent: Noone}\n"
    )

    found = [
        (finding.level, finding.code, finding.path) for finding in load(tmp_path).findings if "batches" in finding.file
    ]
    assert found == [
        ("warning", "unknown_agent", "batches[0].execution_agents[1]"),
        ("warning", "unknown_agent", "batches[1].decomposition_agent"),
        ("warning", "task_batches", ""),
    ]
