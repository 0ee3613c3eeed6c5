"""The reader of sources: every kind in every spelling, and refused unsafe sources."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workflows.context.external.external_reader import MAX_CALL_S
from workflows.context.values.value_types import ValueType
from workflows.package.findings import Finding, Findings
from workflows.package.normal_form.variable_sources import (
    Authorization,
    ComputedSource,
    DatabaseSource,
    EntitySource,
    EnvSource,
    ExternalSource,
    FileSource,
    RuntimeSource,
    Source,
    StateSource,
    StaticSource,
    WriteTarget,
)
from workflows.package.readers.jmespath_fields import referenced_names
from workflows.package.readers.section import Section
from workflows.package.readers.variables.external_source import MAX_WAIT_S
from workflows.package.readers.variables.sources_reader import SourceContext, read_source
from workflows.package.readers.variables.variables_reader import read_variables

SECRET = "sk-canary-7d1"  # written in place of a reference; no finding may quote it
DB: dict[str, Any] = {
    "type": "database",
    "database_name": "d",
    "collection": "c",
    "search_by": "app_id",
    "fields": ["f"],
}
ENTITY: dict[str, Any] = {**DB, "type": "data_entity"}
BY_ID: dict[str, Any] = {
    **ENTITY,
    "search_by": None,
    "query_template": {"_id": "{{o}}"},
    "write_strategy": "on_success",
}
APP = {"app_id": "{{runtime.app_id}}"}
URL = "https://rates.example.org/v1/{{runtime.app_id}}?day=${day}"
HTTP: dict[str, Any] = {"type": "external", "url": URL}
TARGET = {"database": "d", "collection": "c", "search_by": "app_id", "field": "f"}


def read(
    folder: Path = Path("/nowhere"), declared: ValueType = "object", **written: Any
) -> tuple[Source, list[Finding]]:
    findings = Findings()
    section = Section(written, file="f", path="s", findings=findings)
    source = read_source(section, SourceContext(folder, declared))
    section.report_unread()
    return source, list(findings.all)


def finding_keys(findings: list[Finding]) -> list[tuple[str, str, str]]:
    return [(finding.level, finding.code, finding.path.removeprefix("s.")) for finding in findings]


EXAMPLES: list[tuple[dict[str, Any], Source]] = [
    ({"type": "environment", "env_var": "X"}, EnvSource("X")),
    ({"type": "CONFIG", "env_var": " X "}, EnvSource("X")),
    ({"type": "static"}, StaticSource()),
    ({"type": "runtime"}, RuntimeSource()),
    ({"type": "build_context"}, RuntimeSource()),
    (DB, DatabaseSource("d", "c", APP, ("f",))),
    ({**DB, "type": "data_reference", "refresh_strategy": "once", "db_type": "mongodb"}, DatabaseSource("d", "c", APP, ("f",))),
    ({**DB, "refresh_strategy": " Per_Turn"}, DatabaseSource("d", "c", APP, ("f",), is_refreshed=True)),
    ({"type": "state", "persist": True}, StateSource(persist_key="none")),
    ({"type": "state", "persist": "yes", "persist_key": "USER_ID"}, StateSource(persist_key="user_id")),
    ({"type": "derived", "persist": True, "persist_key": "chat_id"}, StateSource(persist_key="chat_id")),
    ({"type": "state", "persist": False}, StateSource()),
    (
        {"type": "database", "database": "d", "collection": "c", "query_template": {"kind": "x", **APP}, "field": "f"},
        DatabaseSource("d", "c", {"kind": "x", **APP}, ("f",)),
    ),
    ({"type": "database", "database": "d", "collection": "c", "query": APP, "fields": ["f", "g", "f"]}, DatabaseSource("d", "c", APP, ("f", "g"))),
    ({"type": "database", "database": "d", "collection": "c", "query": "app_id", "fields": "f"}, DatabaseSource("d", "c", APP, ("f",))),
    (ENTITY, EntitySource("d", "c", "app_id", ("f",))),
    (BY_ID, EntitySource("d", "c", "_id", ("f",), WriteTarget("d", "c", "_id", "on_success", value="{{o}}"), {"_id": "{{o}}"})),
    (
        {**BY_ID, "query_template": {"kind": "x", "_id": "{{o}}"}},
        EntitySource("d", "c", "_id", ("f",), WriteTarget("d", "c", "_id", "on_success", value="{{o}}"), {"kind": "x", "_id": "{{o}}"}),
    ),
    (
        {**BY_ID, "query_template": {"kind": "x", "n": "{{o}}"}, "search_by": "n"},
        EntitySource("d", "c", "n", ("f",), WriteTarget("d", "c", "n", "on_success", value="{{o}}"), {"kind": "x", "n": "{{o}}"}),
    ),
    ({**BY_ID, "query_template": {"kind": "x", "n": {"$gt": 5}}, "write_strategy": None}, EntitySource("d", "c", "", ("f",), None, {"kind": "x", "n": {"$gt": 5}})),
    (
        {**ENTITY, "fields": None, "schema": {"name": "str", "score": "int"}, "write_strategy": "immediate"},
        EntitySource("d", "c", "app_id", ("name", "score"), WriteTarget("d", "c", "app_id", "immediate")),
    ),
    (
        {**ENTITY, "fields": None, "schema": {"type": "object", "properties": {"name": {}}}, "write_strategy": "on_success"},
        EntitySource("d", "c", "app_id", ("name",), WriteTarget("d", "c", "app_id", "on_success")),
    ),
    ({"type": "computed"}, ComputedSource()),
    ({"type": "computed", "computation": "length(items)"}, ComputedSource("length(items)", {"items": "items"})),
    ({"type": "computed", "computation": "a.b > c", "inputs": ["a", "c"]}, ComputedSource("a.b > c", {"a": "a", "c": "c"})),
    ({"type": "computed", "computation": "@", "inputs": {"x": "long_name"}}, ComputedSource("@", {"x": "long_name"})),
    ({"type": "computed", "persist_to": TARGET}, ComputedSource(persist_to=WriteTarget("d", "c", "app_id", "on_success", "f"))),
    (
        {"type": "computed", "persist_to": {**TARGET, "field": None, "write_strategy": "immediate"}},
        ComputedSource(persist_to=WriteTarget("d", "c", "app_id", "immediate")),
    ),
    (HTTP, ExternalSource(URL)),
    ({**HTTP, "url": "http://localhost:8080/{{ runtime.app_id }}/${ day }"}, ExternalSource("http://localhost:8080/{{ runtime.app_id }}/${ day }")),
    (
        {
            **HTTP, "method": "get", "service": "rates", "operation": "today", "headers": {"Accept": "application/json", "X-N": 3},
            "timeout": "2s", "retry": {"max_attempts": 4}, "cache": {"ttl": "10m"}, "select": "rates.eur", "auth": "env:RATES_KEY",
        },
        ExternalSource(
            URL, {"Accept": "application/json", "X-N": "3"}, Authorization("bearer", "env:RATES_KEY"), 2.0, 4, 600.0, "rates.eur"
        ),
    ),
    ({**HTTP, "timeout": 7, "retry": 5, "cache": 60}, ExternalSource(URL, timeout_s=7.0, attempts=5, cache_ttl_s=60.0)),
    ({**HTTP, "cache": False, "auth": {"type": "none"}}, ExternalSource(URL)),
    ({**HTTP, "auth": {"type": "basic", "secret": "file:/run/secrets/x"}}, ExternalSource(URL, authorization=Authorization("basic", "file:/run/secrets/x"))),
    ({**HTTP, "auth": {"scheme": "api_key", "secret": "env:K"}}, ExternalSource(URL, authorization=Authorization("header", "env:K", "X-API-Key"))),
    ({**HTTP, "auth": {"type": "header", "header": "X-Key", "secret": "env:K"}}, ExternalSource(URL, authorization=Authorization("header", "env:K", "X-Key"))),
]  # fmt: skip

# One example a line, however long.
# ruff: noqa: E501


@pytest.mark.design("D4-39", "D4-46")
@pytest.mark.parametrize(("written", "expected"), EXAMPLES)
def test_a_source_is_read_in_every_spelling(written: dict[str, Any], expected: Source) -> None:
    source, findings = read(**written)

    assert findings == []
    assert source == expected


FAULTS: list[tuple[dict[str, Any], tuple[str, str, str]]] = [
    ({"type": "oracle"}, ("error", "unknown_source", "type")),
    ({"type": "environment"}, ("error", "missing_field", "env_var")),
    ({"type": "environment", "env_var": "A=B"}, ("error", "wrong_value", "env_var")),
    ({**DB, "database_name": None}, ("error", "missing_field", "database_name")),
    ({**DB, "collection": None}, ("error", "missing_field", "collection")),
    ({**DB, "search_by": None}, ("error", "missing_field", "query_template")),
    ({**DB, "search_by": "$where"}, ("error", "wrong_value", "search_by")),
    ({**DB, "fields": []}, ("error", "missing_field", "fields")),
    ({**DB, "fields": ["a.b"]}, ("error", "wrong_value", "fields")),
    ({**DB, "fields": [5]}, ("error", "wrong_type", "fields")),
    ({**DB, "db_type": "postgres"}, ("error", "unsupported", "db_type")),
    ({**DB, "refresh_strategy": "every_turn"}, ("warning", "not_executed", "refresh_strategy")),
    ({**ENTITY, "refresh_strategy": "per_turn"}, ("warning", "not_executed", "refresh_strategy")),
    ({**DB, "query_template": {"$where": "1"}}, ("error", "forbidden_operator", "query_template")),
    ({**DB, "query_template": {"a": [{"$or": [{"$expr": {"$function": {}}}]}]}}, ("error", "forbidden_operator", "query_template")),
    ({**DB, "query": {"x": {"$accumulator": 1}}}, ("error", "forbidden_operator", "query")),
    ({**DB, "query_template": {5: 1}}, ("error", "wrong_value", "query_template")),
    ({**DB, "query_template": {"a": "{{ two words }}"}}, ("warning", "unknown_placeholder", "query_template")),
    ({**ENTITY, "search_by": None}, ("error", "missing_field", "search_by")),
    ({**BY_ID, "query_template": {"kind": "x", "n": "{{o}}"}}, ("error", "missing_field", "search_by")),
    ({**BY_ID, "query_template": {"n": {"$gt": 5}}}, ("error", "wrong_value", "query_template")),
    ({**BY_ID, "search_by": "o"}, ("error", "wrong_value", "search_by")),
    ({**ENTITY, "fields": None}, ("error", "missing_field", "fields")),
    ({**ENTITY, "fields": None, "schema": 5}, ("error", "wrong_type", "schema")),
    ({**ENTITY, "fields": None, "schema": {"type": "object"}}, ("error", "missing_field", "fields")),
    ({**ENTITY, "write_strategy": "sometimes"}, ("error", "wrong_value", "write_strategy")),
    ({"type": "computed", "computation": "a["}, ("error", "bad_expression", "computation")),
    ({"type": "computed", "computation": "("*999}, ("error", "bad_expression", "computation")),
    ({"type": "computed", "computation": "a" * 3000}, ("error", "bad_expression", "computation")),
    ({"type": "computed", "computation": "@"}, ("error", "missing_field", "inputs")),
    ({"type": "computed", "computation": "a + b"}, ("error", "bad_expression", "computation")),
    ({"type": "computed", "computation": "a", "inputs": ["b"]}, ("error", "unknown_input", "computation")),
    ({"type": "computed", "computation": "a", "inputs": "a"}, ("error", "wrong_type", "inputs")),
    ({"type": "computed", "inputs": {"a": 5}}, ("error", "wrong_type", "inputs")),
    ({"type": "computed", "persist_to": 5}, ("error", "wrong_type", "persist_to")),
    ({"type": "computed", "persist_to": {**TARGET, "search_by": None}}, ("error", "missing_field", "persist_to.search_by")),
    ({"type": "computed", "persist_to": {**TARGET, "field": "app_id"}}, ("error", "wrong_value", "persist_to.field")),
    ({"type": "computed", "persist_to": {**TARGET, "field": "$set"}}, ("error", "wrong_value", "persist_to.field")),
    ({"type": "computed", "persist_to": {**TARGET, "upsert": True}}, ("warning", "not_executed", "persist_to.upsert")),
    ({"type": "external"}, ("error", "missing_field", "url")),
    ({**HTTP, "url": "ftp://x.org/"}, ("error", "wrong_value", "url")),
    ({**HTTP, "url": "file:///etc/passwd"}, ("error", "wrong_value", "url")),
    ({**HTTP, "url": "https:///path"}, ("error", "wrong_value", "url")),
    ({**HTTP, "url": "https://{{runtime.app_id}}.example.org/"}, ("error", "wrong_value", "url")),
    ({**HTTP, "url": "https://x.org${path}"}, ("error", "wrong_value", "url")),
    ({**HTTP, "url": f"https://user:{SECRET}@x.org/"}, ("error", "wrong_value", "url")),
    ({**HTTP, "url": "https://x.org:port/"}, ("error", "wrong_value", "url")),
    ({**HTTP, "url": "https://[::1/"}, ("error", "wrong_value", "url")),
    ({**HTTP, "url": "https://x.org/a\nb"}, ("error", "wrong_value", "url")),
    ({**HTTP, "url": "https://x.org\\@y.org/"}, ("error", "wrong_value", "url")),
    ({**HTTP, "url": f"https://x.org/?api_key={SECRET}"}, ("error", "secret_in_clear", "url")),
    ({**HTTP, "url": "https://x.org/{{a-b}}"}, ("warning", "unknown_placeholder", "url")),
    ({**HTTP, "method": "POST"}, ("error", "unsupported", "method")),
    ({**HTTP, "headers": {"Authorization": f"Bearer {SECRET}"}}, ("error", "secret_in_clear", "headers.Authorization")),
    ({**HTTP, "headers": {"X-Api-Key": SECRET}}, ("error", "secret_in_clear", "headers.X-Api-Key")),
    ({**HTTP, "headers": {"A b": "x"}}, ("error", "wrong_value", "headers.A b")),
    ({**HTTP, "headers": {"A": "x\r\nHost: y"}}, ("error", "wrong_value", "headers.A")),
    ({**HTTP, "headers": {"A": True}}, ("error", "wrong_value", "headers.A")),
    ({**HTTP, "headers": {"A": "{{runtime.user_id}}"}}, ("error", "wrong_value", "headers.A")),
    ({**HTTP, "auth": SECRET}, ("error", "secret_in_clear", "auth")),
    ({**HTTP, "auth": {"type": "bearer", "token": SECRET}}, ("error", "secret_in_clear", "auth.secret")),
    ({**HTTP, "auth": {"type": "bearer"}}, ("error", "missing_field", "auth.secret")),
    ({**HTTP, "auth": {"type": "oauth2", "secret": "env:X"}}, ("error", "wrong_value", "auth.type")),
    ({**HTTP, "auth": {"type": "header", "header": "a b", "secret": "env:X"}}, ("error", "wrong_value", "auth.header")),
    ({**HTTP, "timeout": "soon"}, ("error", "wrong_value", "timeout")),
    ({**HTTP, "timeout": "1h"}, ("error", "wrong_value", "timeout")),
    ({**HTTP, "timeout": "16s"}, ("warning", "not_executed", "timeout")),
    ({**HTTP, "retry": 9}, ("error", "wrong_value", "retry.attempts")),
    ({**HTTP, "retry": 0}, ("error", "wrong_value", "retry.attempts")),
    ({**HTTP, "retry": {"attempts": 2, "backoff": "1s"}}, ("warning", "not_executed", "retry.backoff")),
    ({**HTTP, "cache": {"ttl": -1}}, ("error", "wrong_value", "cache.ttl")),
    ({**HTTP, "select": "a["}, ("error", "bad_expression", "select")),
    ({**HTTP, "body": {"a": 1}}, ("warning", "not_executed", "body")),
    ({"type": "file"}, ("error", "missing_field", "path")),
    ({"type": "state", "persist_key": "user_id"}, ("warning", "not_executed", "persist_key")),
    ({"type": "state", "persist": True, "persist_key": "app_id"}, ("error", "wrong_value", "persist_key")),
]  # fmt: skip


def test_the_longest_timeout_without_a_finding_is_the_one_that_is_kept() -> None:
    assert MAX_WAIT_S == MAX_CALL_S


@pytest.mark.parametrize(("written", "expected"), FAULTS)
def test_a_fault_is_found_where_it_is(written: dict[str, Any], expected: tuple[str, str, str]) -> None:
    _, findings = read(**written)

    assert finding_keys(findings) == [expected]
    assert SECRET not in "".join(map(str, findings))


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("a.b.c", {"a"}),
        ("a[0].b || c", {"a", "c"}),
        ("items[?price > `5`].name", {"items"}),
        ("sort_by(items, &price)[0]", {"items"}),
        ("{total: sum(items[].price), of: name}", {"items", "name"}),
        ("[a, b] | [0].c", {"a", "b"}),
        ("a.* | length(@)", {"a"}),
        ("!a && b == 'x'", {"a", "b"}),
        ("`5`", set()),
        ("length(@)", {"@"}),
        ('"odd name".x', {"odd name"}),
    ],
)
def test_the_inputs_of_an_expression_are_its_top_level_names(expression: str, names: set[str]) -> None:
    assert referenced_names(expression) == names


@pytest.mark.design("D4-42")
@pytest.mark.parametrize("inputs", [["a", "b"], {"x": "a"}])
def test_a_function_is_no_computation(inputs: Any) -> None:
    findings = Findings()
    source = {"type": "computed", "computation": "calculate_score", "inputs": inputs}
    section = Section({"definitions": {"v": {"source": source}}}, file="f", path="", findings=findings)

    read_variables(section, folder=Path("/nowhere"))

    [finding] = findings.all
    assert (finding.level, finding.code, finding.path) == ("error", "unknown_input", "definitions.v.source.computation")
    assert finding.message.startswith("calculate_score is not one of the inputs: add it there; a computation is a ")
    assert finding.message.endswith("; compute the value in a tool or a lifecycle tool, and set it there")


def computed_into(target: str) -> tuple[Any, list[tuple[str, str, str]]]:
    findings = Findings()
    body = {
        "definitions": {"v": {"source": {"type": "computed", "persist_to": target}}, "customer": {"source": ENTITY}}
    }
    body["definitions"]["w"] = {"source": {**ENTITY, "write_strategy": "immediate"}}
    variables, _ = read_variables(Section(body, file="f", path="", findings=findings), folder=Path("/nowhere"))
    source = variables["v"].source
    assert isinstance(source, ComputedSource)
    return source.persist_to, finding_keys(list(findings.all))


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("customer", WriteTarget("d", "c", "app_id", "on_success", "v")),
        ("customer.score", WriteTarget("d", "c", "app_id", "on_success", "score")),
        ("w.score", WriteTarget("d", "c", "app_id", "immediate", "score")),
    ],
)
def test_a_computed_value_goes_into_the_document_of_an_entity(target: str, expected: WriteTarget) -> None:
    assert computed_into(target) == (expected, [])


@pytest.mark.parametrize(
    ("target", "code"),
    [("nobody", "unknown_variable"), ("v", "unknown_variable"), ("customer.a.b", "wrong_value"), ("w.app_id", "wrong_value")],
)  # fmt: skip
def test_a_computed_value_goes_nowhere_else(target: str, code: str) -> None:
    assert computed_into(target)[1] == [("error", code, "definitions.v.source.persist_to")]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "P"
    (folder / "data").mkdir(parents=True)
    (tmp_path / "_shared").mkdir()
    (tmp_path / "_shared" / "common.yaml").write_text("a: [1, 2]")
    (tmp_path / "outside.json").write_text('"outside"')
    (folder / "data" / "a.json").write_text('\ufeff{"a": 1}')
    (folder / "data" / "a.txt").write_text("grüße", encoding="latin-1")
    (folder / ".env.json").write_text('{"KEY": "x"}')
    (folder / "link.json").symlink_to(tmp_path / "outside.json")
    (folder / "hidden.json").symlink_to(folder / ".env.json")
    (folder / "big.txt").write_text("x" * 300_000)
    (folder / "broken.json").write_text('{"a": ')
    (folder / "broken.yaml").write_text("a: [")
    (folder / "bomb.yaml").write_text("a: &a [x, x, x, x]\nb: &b [*a, *a, *a, *a]\nc: [" + "*b, " * 20_000 + "]")
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "keys.yaml").write_text("{1: 2}")
    os.mkfifo(folder / "pipe.json")
    return folder


@pytest.mark.parametrize(
    ("written", "declared", "content"),
    [
        ({"path": "data/a.json"}, "object", {"a": 1}),
        ({"path": "./data/../data/a.json", "format": "json"}, "object", {"a": 1}),
        ({"path": "data/a.json", "format": "text"}, "string", '{"a": 1}'),
        ({"path": "data/a.json", "format": "yaml"}, "object", {"a": 1}),
        ({"path": "../_shared/common.yaml"}, "object", {"a": [1, 2]}),
        ({"path": "data/a.txt", "encoding": "latin-1"}, "string", "grüße"),
    ],
)
def test_a_file_is_read_when_the_package_is(package: Path, written: Any, declared: ValueType, content: Any) -> None:
    source, findings = read(package, declared, type="file", **written)

    assert findings == []
    assert source == FileSource(written["path"], content)


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ({"path": "../outside.json"}, "leaves_package"),
        ({"path": "/etc/hostname"}, "leaves_package"),
        ({"path": "link.json"}, "leaves_package"),
        ({"path": "../_shared/../outside.json"}, "leaves_package"),
        ({"path": ".env.json"}, "forbidden_file"),
        ({"path": "hidden.json"}, "forbidden_file"),
        ({"path": ".ENV/none.json"}, "forbidden_file"),
        ({"path": "big.txt"}, "file_too_large"),
        ({"path": "broken.json"}, "unreadable"),
        ({"path": "broken.yaml"}, "unreadable"),
        ({"path": "bomb.yaml"}, "unreadable"),
        ({"path": "deep.json"}, "unreadable"),
        ({"path": "keys.yaml"}, "unreadable"),
        ({"path": "data/a.txt"}, "unreadable"),
        ({"path": "data"}, "unreadable"),
        ({"path": "pipe.json"}, "unreadable"),
        ({"path": "x" * 5_000}, "unreadable"),
        ({"path": "a\\b.json"}, "wrong_value"),
        ({"path": "a\0.json"}, "wrong_value"),
        ({"path": "data/a.json", "format": "xml"}, "wrong_value"),
        ({"path": "data/a.json", "encoding": "zlib"}, "wrong_value"),
        ({"path": "none.json", "required": True}, "missing_file"),
    ],
)
def test_a_file_that_cannot_be_is_refused(package: Path, written: dict[str, Any], code: str) -> None:
    source, findings = read(package, "string", type="file", **written)

    assert [(finding.level, finding.code) for finding in findings] == [("error", code)]
    assert source == FileSource(written["path"])


@pytest.mark.parametrize(
    ("path", "code"), [("none.json", "missing_file"), ("none/none.json", "missing_file"), ("data/a.json", "wrong_type_of_value")]
)  # fmt: skip
def test_a_file_that_is_missing_or_of_another_type_is_reported(package: Path, path: str, code: str) -> None:
    _, findings = read(package, "array", type="file", path=path)

    assert finding_keys(findings) == [("warning", code, "path")]


KINDS = [
    "environment", "config", "database", "data_reference", "data_entity", "static", "state", "derived", "computed",
    "external", "file", "runtime", "build_context",
]  # fmt: skip
FIELDS = sorted({name for written, _ in (*EXAMPLES, *FAULTS) for name in written} - {"type"})
junk = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-2, 2**70),
        st.floats(),
        st.text(max_size=6),
        st.sampled_from(["https://x.org/", "app_id", "env:X", "a.b", "../x", "1h", "v", "/", "{{"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.text(max_size=4), st.integers(), st.sampled_from(FIELDS)), inner, max_size=3),
    ),
    max_leaves=8,
)


@pytest.mark.design("D5-1")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(FIELDS), junk, max_size=8))
def test_whatever_is_written_is_read_or_found(tmp_path: Path, kind: str, written: dict[str, Any]) -> None:
    _, findings = read(tmp_path, "string", type=kind, **written)

    assert all(finding.code and finding.message for finding in findings)
