"""The reader of structured outputs: the type grammar, both forms of lists, and faults."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.package.findings import Finding, Findings
from workflows.package.normal_form.structured_outputs import (
    InlineModel,
    ListOf,
    LiteralOf,
    ModelRef,
    Null,
    OutputField,
    OutputModel,
    OutputType,
    Scalar,
    StructuredOutputs,
    UnionOf,
)
from workflows.package.readers.outputs.output_types_reader import MAX_TYPE_DEPTH, MAX_TYPES
from workflows.package.readers.outputs.structured_outputs_reader import read_structured_outputs
from workflows.package.readers.section import Section

AGENTS = frozenset({"A", "B"})
STR, INT, BOOL, FLOAT, DICT, ANY = (Scalar(name) for name in ("str", "int", "bool", "float", "dict", "any"))
FindingKey = list[tuple[str, str, str]]


def read(body: Any, required: frozenset[str] = frozenset()) -> tuple[StructuredOutputs, tuple[Finding, ...]]:
    findings = Findings()
    section = Section(body, file="structured_outputs.yaml", path="", findings=findings)
    return read_structured_outputs(section, agents=AGENTS, required=required), findings.all


def finding_keys(findings: tuple[Finding, ...]) -> FindingKey:
    return [(finding.level, finding.code, finding.path) for finding in findings]


def models(**fields: Any) -> dict[str, Any]:
    return {"models": {"Other": {"type": "model", "fields": {}}, **fields}}


def read_field(written: Any, **beside: Any) -> tuple[OutputField, tuple[Finding, ...]]:
    outputs, findings = read(models(M={"type": "model", "fields": {"f": written}, **beside}))
    body = outputs.models["M"].body
    assert isinstance(body, InlineModel)
    return body.fields["f"], findings


def optional(kind: OutputType) -> UnionOf:
    return UnionOf((kind, Null()))


TYPES: list[tuple[dict[str, Any], OutputType]] = [
    *[({"type": word}, STR) for word in ("str", "string", "text", " Str ")],
    *[({"type": word}, INT) for word in ("int", "integer")],
    *[({"type": word}, BOOL) for word in ("bool", "boolean")],
    *[({"type": word}, FLOAT) for word in ("float", "number")],
    *[({"type": word}, DICT) for word in ("dict", "object", "Dict[str, int]")],
    ({"type": "any"}, ANY),
    ({"type": "null"}, Null()),
    ({"type": "Other"}, ModelRef("Other")),
    ({"type": "list"}, ListOf(ANY)),
    ({"type": "list", "items": "str"}, ListOf(STR)),
    ({"type": "array", "items": "Other"}, ListOf(ModelRef("Other"))),
    ({"type": "list", "items": "list"}, ListOf(ListOf(ANY))),
    ({"type": "list", "items": "optional_int"}, ListOf(optional(INT))),
    ({"type": "list", "items": {"type": "list", "items": "int"}}, ListOf(ListOf(INT))),
    ({"type": "list", "items": {"type": "literal", "values": ["a"]}}, ListOf(LiteralOf(("a",)))),
    ({"type": "list", "items": "literal", "values": ["a"]}, ListOf(LiteralOf(("a",)))),
    ({"type": "list[Other]"}, ListOf(ModelRef("Other"))),
    ({"type": "List[List[str]]"}, ListOf(ListOf(STR))),
    ({"type": "Optional[str]", "required": True}, optional(STR)),
    ({"type": "literal", "values": ["a", 1, 1.5, True, None]}, LiteralOf(("a", 1, 1.5, True, None))),
    ({"type": "str", "allowed_values": ["a", "b"]}, LiteralOf(("a", "b"))),
    ({"type": "str", "enum": ["a"]}, LiteralOf(("a",))),
    ({"type": "str", "values": ["a"]}, LiteralOf(("a",))),
    ({"type": "list", "items": "str", "enum": ["a"]}, ListOf(LiteralOf(("a",)))),
    ({"type": "union", "variants": ["str", "null"], "enum": ["a"]}, optional(LiteralOf(("a",)))),
    ({"type": "union", "variants": ["str", "int", "Other"], "enum": ["a"]}, UnionOf((LiteralOf(("a",)), ModelRef("Other")))),
    ({"type": "union", "variants": ["str", None]}, optional(STR)),
    ({"type": "union", "variants": ["str", "int", "bool", "null"]}, UnionOf((STR, INT, BOOL, Null()))),
    ({"type": "union", "variants": ["Other", "dict", "null"]}, UnionOf((ModelRef("Other"), DICT, Null()))),
    ({"type": "union", "variants": ["list", "null"]}, optional(ListOf(ANY))),
    ({"type": "union", "variants": ["list", "null"], "items": "Other"}, optional(ListOf(ModelRef("Other")))),
    ({"type": "union", "variants": ["literal", "null"], "values": ["a"]}, optional(LiteralOf(("a",)))),
    ({"type": "union", "variants": [{"type": "list", "items": "str"}, "int"]}, UnionOf((ListOf(STR), INT))),
    ({"type": "union", "variants": ["str"]}, STR),
    ({"type": "model", "fields": {"x": "int"}}, InlineModel({"x": OutputField(INT)})),
    ({"fields": [{"name": "x", "type": "int"}]}, InlineModel({"x": OutputField(INT)})),
    ({"type": {"type": "list", "items": "int"}}, ListOf(INT)),
    ({"values": ["a"]}, LiteralOf(("a",))),
    ({"variants": ["str", "int"]}, UnionOf((STR, INT))),
    ({"items": "str"}, ListOf(STR)),
]  # fmt: skip
# ruff: noqa: E501 -- one form or fault a line, however long


@pytest.mark.parametrize(("written", "kind"), TYPES)
def test_every_type_has_one_normal_form(written: dict[str, Any], kind: OutputType) -> None:
    found, findings = read_field({**written, "description": "What it is.", "NOTE": "x"})

    assert found == OutputField(kind, "What it is.")
    assert findings == ()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("str", OutputField(STR)),
        ({"type": "optional_str"}, OutputField(optional(STR), required=False)),
        ({"type": "optional_list", "items": "Other"}, OutputField(optional(ListOf(ModelRef("Other"))), required=False)),
        ({"type": "optional_list", "default": []}, OutputField(optional(ListOf(ANY)), required=False, default=[])),
        ({"type": "optional_dict"}, OutputField(optional(DICT), required=False)),
        ({"type": "optional_Other"}, OutputField(optional(ModelRef("Other")), required=False)),
        ({"type": "Optional[int]"}, OutputField(optional(INT), required=False)),
        ({"type": "str", "required": False}, OutputField(optional(STR), required=False)),
        ({"type": "str", "required": "no"}, OutputField(optional(STR), required=False)),
        ({"type": "str", "required": True}, OutputField(STR)),
        ({"type": "optional_str", "required": True}, OutputField(optional(STR))),
        ({"type": "str", "default": "x"}, OutputField(STR, required=False, default="x")),
        ({"type": "str", "default": None}, OutputField(optional(STR), required=False)),
        ({"type": "bool", "default": False}, OutputField(BOOL, required=False, default=False)),
        ({"type": "any", "default": None}, OutputField(ANY, required=False)),
        ({"type": "union", "variants": ["str", "null"]}, OutputField(optional(STR))),
        ({"type": "union", "variants": ["str", "null"], "default": None}, OutputField(optional(STR), required=False)),
        ({"type": "union", "variants": ["str", "int"], "default": None}, OutputField(UnionOf((STR, INT, Null())), required=False)),
    ],
)  # fmt: skip
def test_a_field_is_required_unless_declared_otherwise(written: Any, expected: OutputField) -> None:
    assert read_field(written) == (expected, ())


def test_the_required_list_of_a_model_decides_for_all_of_its_fields() -> None:
    fields = {"a": "str", "b": "str", "c": {"type": "str", "default": "x"}, "d": {"type": "str", "required": True}}

    outputs, findings = read(models(M={"type": "model", "fields": fields, "required": ["a", "z"]}))

    body = outputs.models["M"].body
    assert isinstance(body, InlineModel)
    assert {name: field.required for name, field in body.fields.items()} == {
        "a": True,
        "b": False,
        "c": False,
        "d": True,
    }
    assert body.fields["b"].type == optional(STR)
    assert finding_keys(findings) == [("warning", "undefined_field", "models.M.required[1]")]


def test_an_inline_model_has_its_own_required_list() -> None:
    written = {"type": "model", "fields": {"x": "int", "y": "int"}, "required": ["x"]}

    found, findings = read_field(written)

    inner = {"x": OutputField(INT), "y": OutputField(optional(INT), required=False)}
    assert (found, findings) == (OutputField(InlineModel(inner)), ())


@pytest.mark.design("D4-5", "D4-59")
def test_models_are_a_mapping_or_a_list_and_so_is_the_registry() -> None:
    fields = {"x": {"type": "str", "description": "An x."}}
    expected = StructuredOutputs(
        {"M": OutputModel("M", InlineModel({"x": OutputField(STR, "An x.")}), "An M.")}, {"A": "M"}
    )
    model = {"type": "model", "fields": fields, "description": "An M.", "NOTE": "x"}
    listed = {"models": [{"name": "M", **model}], "registry": [{"agent": "A", "model": "M"}, {"agent": "B"}]}
    named = {"models": {"M": model}, "registry": {"A": "M", "B": None}, "schema_version": "x"}

    for body in (listed, named):
        assert read(body) == (expected, ())


@pytest.mark.parametrize("body", [{}, {"models": None, "registry": None}, {"registry": {"A": None}}, {"models": {}}])
def test_nothing_in_the_file_is_no_fault(body: Any) -> None:
    assert read(body) == (StructuredOutputs(), ())


def test_references_may_be_forward_mutual_and_to_oneself() -> None:
    outputs, findings = read(
        models(
            First={"type": "model", "fields": {"next": "Second", "kind": "Kind"}},
            Second={"type": "model", "fields": {"back": "optional_First", "own": {"type": "list", "items": "Second"}}},
            Kind={"type": "literal", "values": ["a", "b"]},
            Json={"type": "union", "variants": ["str", {"type": "list", "items": "Json"}]},
        )
    )

    assert outputs.models["Kind"].body == LiteralOf(("a", "b"))
    assert outputs.models["Json"].body == UnionOf((STR, ListOf(ModelRef("Json"))))
    assert findings == ()


@pytest.mark.parametrize(
    ("aliases", "endless"),
    [
        ({"X": {"type": "X"}}, ["X"]),
        ({"X": {"type": "union", "variants": ["X", "str"]}}, ["X"]),
        ({"X": {"type": "optional_Y"}, "Y": {"type": "union", "variants": ["X", "Other"]}, "Z": {"type": "Other"}}, ["X", "Y"]),
        ({"X": {"type": "Other"}, "Y": {"type": "X"}}, []),
    ],
)  # fmt: skip
def test_an_alias_that_only_refers_to_itself_is_an_error(aliases: dict[str, Any], endless: list[str]) -> None:
    assert finding_keys(read(models(**aliases))[1]) == [("error", "endless_type", f"models.{name}") for name in endless]


F = "models.M.fields.f"
FAULTS: list[tuple[Any, FindingKey]] = [
    ({"type": "strr"}, [("error", "unknown_type", f"{F}.type")]),
    ({"type": "list", "items": "Othr"}, [("error", "unknown_type", f"{F}.items")]),
    ({"type": "list[Othr]"}, [("error", "unknown_type", f"{F}.type")]),
    ({"type": "union", "variants": ["str", "Othr"]}, [("error", "unknown_type", f"{F}.variants[1]")]),
    ({"type": "optional_"}, [("error", "unknown_type", f"{F}.type")]),
    ({"type": None}, [("error", "missing_field", f"{F}.type")]),
    ({}, [("error", "missing_field", f"{F}.type")]),
    ({"type": 5}, [("error", "wrong_type", f"{F}.type")]),
    ({"type": ["str", "null"]}, [("error", "wrong_type", f"{F}.type")]),
    ({"type": "list", "items": 5}, [("error", "wrong_type", f"{F}.items")]),
    ({"type": "union"}, [("error", "missing_field", f"{F}.variants")]),
    ({"type": "union", "variants": []}, [("error", "missing_field", f"{F}.variants")]),
    ({"type": "union", "variants": "str"}, [("error", "wrong_type", f"{F}.variants"), ("error", "missing_field", f"{F}.variants")]),
    ({"type": "union", "variants": [5, "int"]}, [("error", "wrong_type", f"{F}.variants[0]")]),
    ({"type": "union", "variants": ["union", "int"]}, [("error", "wrong_value", f"{F}.variants[0]")]),
    ({"type": "union", "variants": ["literal", "null"]}, [("error", "missing_field", f"{F}.values")]),
    ({"type": "literal"}, [("error", "missing_field", f"{F}.values")]),
    ({"type": "literal", "values": []}, [("error", "missing_field", f"{F}.values")]),
    ({"type": "literal", "values": [float("nan")]}, [("error", "wrong_value", f"{F}.values")]),
    ({"type": "literal", "values": [float("inf")]}, [("error", "wrong_value", f"{F}.values")]),
    ({"type": "literal", "values": [["a"]]}, [("error", "wrong_value", f"{F}.values")]),
    ({"type": "literal", "values": [{}]}, [("error", "wrong_value", f"{F}.values")]),
    ({"type": "str", "enum": []}, [("error", "missing_field", f"{F}.enum")]),
    ({"type": "Other", "enum": ["a"]}, [("warning", "not_executed", f"{F}.enum")]),
    ({"type": "model"}, [("error", "missing_field", f"{F}.fields")]),
    ({"type": "model", "fields": [5]}, [("error", "wrong_type", f"{F}.fields[0]")]),
    ({"type": "model", "fields": {"x": None}}, [("error", "wrong_type", f"{F}.fields.x")]),
    ({"type": "model", "fields": {True: "str"}}, [("error", "wrong_type", f"{F}.fields")]),
    ({"type": "model", "fields": [{"name": "x", "type": "int"}] * 2}, [("error", "duplicate_name", f"{F}.fields[1].name")]),
    ({"type": "str", "required": "perhaps"}, [("error", "wrong_value", f"{F}.required")]),
    ({"type": "str", "pattern": "x+"}, [("warning", "not_executed", f"{F}.pattern")]),
    ({"type": "list", "items": {"type": "str", "pattern": "x+"}}, [("warning", "not_executed", f"{F}.items.pattern")]),
    ({"type": "str", "items": "int"}, [("warning", "not_executed", f"{F}.items")]),
]  # fmt: skip


@pytest.mark.parametrize(("written", "expected"), FAULTS)
def test_a_fault_of_a_type_is_found_where_it_is(written: Any, expected: FindingKey) -> None:
    assert finding_keys(read_field(written)[1]) == expected


def test_an_unknown_type_is_answered_with_what_may_be_meant() -> None:
    [near] = read_field({"type": "Othr"})[1]
    [far] = read_field({"type": "qqqqqqqq"})[1]

    assert "did you mean Other" in near.message
    assert "write one of str, int" in far.message


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (5, [("error", "wrong_type", "")]),
        ({"models": 5}, [("error", "wrong_type", "models")]),
        ({"models": {"M": None}}, [("error", "wrong_type", "models.M")]),
        ({"models": {5: {}}}, [("error", "wrong_type", "models")]),
        ({"models": ["x"]}, [("error", "wrong_type", "models[0]")]),
        ({"models": [{"type": "str"}]}, [("error", "missing_field", "models[0].name")]),
        ({"models": {"M": {"type": "str", "extra": 1}}}, [("warning", "not_executed", "models.M.extra")]),
        ({"model": 1}, [("warning", "not_executed", "model")]),
        ({"registry": 5}, [("error", "wrong_type", "registry")]),
        ({"registry": {True: None}}, [("error", "wrong_type", "registry")]),
        ({"registry": {"C": None}}, [("error", "unknown_agent", "registry.C")]),
        ({"registry": {"A": 5}}, [("error", "wrong_type", "registry.A")]),
        ({"registry": ["x"]}, [("error", "wrong_type", "registry[0]")]),
        ({"registry": [{"model": None}]}, [("error", "missing_field", "registry[0].agent")]),
        ({"registry": [{"agent": "C"}]}, [("error", "unknown_agent", "registry[0].agent")]),
    ],
)
def test_a_file_of_another_shape_is_a_finding(body: Any, expected: FindingKey) -> None:
    assert finding_keys(read(body)[1]) == expected


@pytest.mark.parametrize(
    ("registry", "expected"),
    [
        ({"A": "Othr"}, ("error", "unknown_model", "registry.A")),
        ([{"agent": "A", "model": "Othr"}], ("error", "unknown_model", "registry[0].model")),
        ([{"agent": "A", "model": "Other"}, {"agent": "A", "model": "M"}], ("error", "duplicate_name", "registry[1].agent")),
    ],
)  # fmt: skip
def test_a_registry_names_models_of_the_file(registry: Any, expected: tuple[str, str, str]) -> None:
    outputs, findings = read(models(M="str") | {"registry": registry})

    assert finding_keys(findings) == [expected]
    assert outputs.registry.get("A") != "Othr"


def test_an_agent_that_must_answer_with_a_model_needs_one() -> None:
    body = models() | {"registry": {"A": "Other", "B": None}}

    _, findings = read(body, required=frozenset({"A", "B"}))

    assert ("error", "missing_model", "registry") in finding_keys(findings)
    assert next(finding.message for finding in findings if finding.code == "missing_model").startswith(
        "has no model for B,"
    )
    assert "missing_model" not in {finding.code for finding in read(body, required=frozenset({"A"}))[1]}


def make_nested(depth: int) -> dict[str, Any]:
    kind: dict[str, Any] = {"type": "str"}
    for _ in range(depth):
        kind = {"type": "list", "items": kind}
    return kind


def test_types_are_nested_to_a_depth_and_no_deeper() -> None:
    assert read(models(M=make_nested(MAX_TYPE_DEPTH)))[1] == ()
    for kind in (make_nested(MAX_TYPE_DEPTH + 1), make_nested(300), {"type": "list[" * 60 + "str" + "]" * 60}):
        [finding] = read(models(M=kind))[1]
        assert (finding.level, finding.code) == ("error", "nested_too_deeply")


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "list[" * 100_000 + "]" * 100_000},
        {"type": "optional_" * 100_000},
        {"type": "x" * 1_000_000},
        {"type": "union", "variants": ["union"] * 1000},
        {"type": "model", "fields": {f"f{number}": f"unknown{number}" for number in range(3000)}},
    ],
)
def test_what_is_large_is_read_fast(kind: Any) -> None:
    start = time.perf_counter()

    _, findings = read(models(M=kind))

    assert time.perf_counter() - start < 3
    assert max(len(finding.message) for finding in findings) < 500


def test_a_file_may_describe_so_many_types_and_no_more() -> None:
    variants = {"type": "union", "variants": ["int"] * (MAX_TYPES // 100)}

    _, findings = read(models(**{f"M{number}": variants for number in range(101)}))

    assert [finding.code for finding in findings] == ["too_many_types"]


def written_form(kind: OutputType) -> Any:
    """Writes the normal form as an author would: the inverse of the reader."""
    match kind:
        case Scalar(name):
            return {"type": name}
        case Null():
            return {"type": "null"}
        case LiteralOf(values):
            return {"type": "literal", "values": list(values)}
        case ListOf(items):
            return {"type": "list", "items": written_form(items)}
        case UnionOf(variants):
            return {"type": "union", "variants": [written_form(variant) for variant in variants]}
        case ModelRef(name):
            return {"type": name}
        case InlineModel(fields):
            return {"type": "model", "fields": {name: written_field(field) for name, field in fields.items()}}


def written_field(field: OutputField) -> dict[str, Any]:
    default = {"default": field.default} if field.default is not None else {}
    return {**written_form(field.type), "description": field.description, "required": field.required, **default}


scalars = st.sampled_from([STR, INT, BOOL, FLOAT, DICT, ANY])
names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=5)
leaves: st.SearchStrategy[OutputType] = st.one_of(
    scalars,
    st.just(Null()),
    st.just(ModelRef("Other")),
    st.lists(st.text(max_size=3) | st.integers() | st.booleans(), min_size=1, max_size=3).map(
        lambda values: LiteralOf(tuple(values))
    ),
)


def wrap_kind(inner: st.SearchStrategy[OutputType]) -> st.SearchStrategy[OutputType]:
    required = st.builds(OutputField, inner, st.text(max_size=3), st.just(True), st.none() | st.integers())
    defaulted = st.builds(OutputField, inner, st.text(max_size=3), st.just(False), st.integers())
    return st.one_of(
        inner.map(ListOf),
        st.lists(inner, min_size=2, max_size=3).map(lambda variants: UnionOf(tuple(variants))),
        st.dictionaries(names, required | defaulted, max_size=3).map(InlineModel),
    )


@given(
    st.dictionaries(
        names.filter(lambda name: name != "Other"), st.recursive(leaves, wrap_kind, max_leaves=10), max_size=3
    )
)
def test_a_generated_grammar_is_read_back_as_it_was(kinds: dict[str, OutputType]) -> None:
    shadowed = {"str", "int", "bool", "float", "dict", "any", "null", "list", "union", "model", "literal"}
    kinds = {name: kind for name, kind in kinds.items() if name not in shadowed}

    outputs, findings = read(models(**{name: written_form(kind) for name, kind in kinds.items()}))

    assert findings == ()
    assert {name: outputs.models[name].body for name in kinds} == kinds


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats() | st.text(max_size=4) | st.sampled_from(["str", "union", "literal", "list", "model", "M", "optional_M", "list[M]", "[", "dict["]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "items", "values", "variants", "fields", "required", "enum", "default", "M", "A", "name", "agent"]) | st.booleans() | st.integers(), inner, max_size=5),
    max_leaves=20,
)  # fmt: skip


@given(junk, junk, junk)
def test_anything_in_the_file_is_a_finding_and_never_an_exception(body: Any, fields: Any, registry: Any) -> None:
    read(body)
    read({"models": {"M": {"type": "model", "fields": fields}, "N": body}, "registry": registry})
    read({"models": fields, "registry": registry})
