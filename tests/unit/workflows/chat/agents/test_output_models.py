"""Output models: what every type accepts under any names, and how it refuses."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.chats import build_chat
from tests.unit.workflows.packages import load
from workflows.chat.agents.output_models import MAX_PROBLEM_CHARACTERS, MAX_PROBLEMS, ReplyMismatch, ReplyModel
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
    UnionOf,
)

STR, INT, BOOL, FLOAT, DICT, ANY = (Scalar(name) for name in ("str", "int", "bool", "float", "dict", "any"))
ODD_NAMES = ("json", "schema", "copy", "model_config", "class", "_x", "", "a b", "a.b", "$ref", "é", "1", "self")


def model(name: str = "M", **bodies: OutputType) -> ReplyModel:
    return model_named(bodies, name)


def model_named(bodies: Mapping[str, OutputType], name: str) -> ReplyModel:
    return ReplyModel.compile({each: OutputModel(each, body) for each, body in bodies.items()}, name)


def fields(**types: OutputType) -> InlineModel:
    return InlineModel({name: OutputField(kind) for name, kind in types.items()})


TAKEN: list[tuple[OutputType, str, Any]] = [
    (STR, '"a"', "a"),
    (INT, "5", 5),
    (INT, '"5"', 5),
    (INT, "5.0", 5),
    (BOOL, "true", True),
    (FLOAT, "1", 1.0),
    (DICT, '{"a": [1, null]}', {"a": [1, None]}),
    (ANY, '[{"a": null}]', [{"a": None}]),
    (Null(), "null", None),
    (ListOf(STR), '["a"]', ["a"]),
    (ListOf(ListOf(INT)), "[[1], []]", [[1], []]),
    (UnionOf((STR, Null())), "null", None),
    (UnionOf((STR, INT, BOOL, Null())), "true", True),
    (UnionOf((STR, INT, BOOL, Null())), '"5"', "5"),
    (LiteralOf(("a", "b")), '"b"', "b"),
    *((LiteralOf(("a", 1, True, None, 1.5, False, 0)), text, value) for text, value in
      [('"a"', "a"), ("1", 1), ("true", True), ("null", None), ("1.5", 1.5), ("false", False), ("0", 0)]),
    (LiteralOf((2,)), "2.0", 2),
    (fields(a=INT), '{"a": 1, "extra": 2}', {"a": 1}),
    (fields(a=fields(b=INT)), '{"a": {"b": 1, "c": 2}}', {"a": {"b": 1}}),
    (fields(), "{}", {}),
    (InlineModel({"a": OutputField(INT, required=False)}), "{}", {"a": None}),
    (InlineModel({"a": OutputField(ListOf(INT), required=False, default=[])}), "{}", {"a": []}),
    (InlineModel({"a": OutputField(UnionOf((INT, Null())), required=False, default=7)}), '{"a": null}', {"a": None}),
]  # fmt: skip


@pytest.mark.design("D4-59")
@pytest.mark.parametrize(("body", "text", "value"), TAKEN)
def test_what_fits_is_read(body: OutputType, text: str, value: Any) -> None:
    found = model(M=body).read(text)

    assert found == value
    assert type(found) is type(value)


REFUSED: list[tuple[OutputType, str, str]] = [
    (STR, "5", "valid string"),
    (INT, '"five"', "valid integer"),
    (INT, "1.5", "fractional"),
    (FLOAT, "NaN", "finite"),
    (FLOAT, "1e999", "finite"),
    (ANY, "NaN", "not JSON"),
    (DICT, '{"a": [Infinity]}', "not JSON"),
    (DICT, "[]", "object"),
    (Null(), "0", "null"),
    (ListOf(INT), '[1, "x"]', "1: Input should be a valid integer"),
    (LiteralOf((1,)), "true", "should be 1"),
    (LiteralOf((True, "a")), "1", 'should be true or "a"'),
    (LiteralOf((1, 2.5)), "[]", "should be 1 or 2.5"),
    (LiteralOf(("a",)), '"A"', "'a'"),
    (UnionOf((INT, Null())), '"x"', "int: "),
    (fields(a=INT), "{}", "a: Field required"),
    (fields(a=fields(b=INT)), '{"a": {"b": []}}', "a.b: "),
    (fields(a=INT), "[]", "object"),
    (fields(a=INT), "", "JSON"),
    (fields(a=INT), '{"a": 1', "JSON"),
    (fields(a=STR), '{"a": "\\ud800"}', "JSON"),
    (ANY, "[" * 100_000, "JSON"),
]


@pytest.mark.parametrize(("body", "text", "words"), REFUSED)
def test_a_misfit_is_reported(body: OutputType, text: str, words: str) -> None:
    with pytest.raises(ReplyMismatch) as unfit:
        model(M=body).read(text)

    assert words in str(unfit.value)


def test_a_model_may_hold_itself() -> None:
    tree = model(M=InlineModel({"v": OutputField(INT), "kids": OutputField(ListOf(ModelRef("M")))}))

    assert tree.read('{"v": 1, "kids": [{"v": 2, "kids": []}]}') == {"v": 1, "kids": [{"v": 2, "kids": []}]}
    with pytest.raises(ReplyMismatch, match=r"kids\.0\.kids: Field required"):
        tree.read('{"v": 1, "kids": [{"v": 2}]}')


def test_models_may_refer_to_each_other_before_they_are_defined() -> None:
    other = UnionOf((ModelRef("N"), Null()))
    mutual = model("M", M=fields(n=other), N=fields(m=UnionOf((ModelRef("M"), Null()))))

    assert mutual.read('{"n": {"m": {"n": null}}}') == {"n": {"m": {"n": None}}}


def test_a_name_for_a_list_may_hold_itself() -> None:
    nested = model("A", A=ListOf(ModelRef("B")), B=UnionOf((INT, ModelRef("C"))), C=ModelRef("A"))

    assert nested.read("[1, [2, []]]") == [1, [2, []]]


def test_a_model_that_needs_itself_never_fits_and_never_hangs() -> None:
    with pytest.raises(ReplyMismatch, match="Field required"):
        model(M=fields(m=ModelRef("M"))).read('{"m": {"m": {}}}')


def test_a_field_may_have_any_name() -> None:
    odd = model(M=InlineModel({name: OutputField(STR) for name in ODD_NAMES}))
    said = dict.fromkeys(ODD_NAMES, "x")

    assert odd.read(str(said).replace("'", '"')) == said


def test_models_may_have_any_name() -> None:
    names = ["a/b", "a b", "a_b", "~", "é", "class", "x" * 200]
    bodies: dict[str, OutputType] = {name: fields(v=INT) for name in names}
    found = model_named({"M": fields(**{f"f{i}": ModelRef(name) for i, name in enumerate(names)}), **bodies}, "M")
    text = "{" + ", ".join(f'"f{i}": {{"v": {i}}}' for i in range(len(names))) + "}"

    assert found.read(text)["f6"] == {"v": 6}
    assert found.schema.json_schema is not None
    assert len(found.schema.json_schema["$defs"]) == len(names)


def test_a_default_is_a_new_one_every_time() -> None:
    found = model(M=InlineModel({"a": OutputField(ListOf(INT), required=False, default=[])}))
    found.read("{}")["a"].append(1)

    assert found.read("{}") == {"a": []}


def test_problems_are_few_and_short() -> None:
    many = model(M=fields(**{f"f{i}": LiteralOf(tuple("x" * 50 + str(j) for j in range(99))) for i in range(99)}))
    with pytest.raises(ReplyMismatch) as unfit:
        many.read("{" + ", ".join(f'"f{i}": "y"' for i in range(99)) + "}")

    problems = str(unfit.value).split("; ")
    assert len(problems) == MAX_PROBLEMS + 1
    assert problems[-1] == "and 94 more"
    assert all(len(each) <= MAX_PROBLEM_CHARACTERS for each in problems)


def test_a_long_chain_of_models_is_built() -> None:
    chain: dict[str, OutputType] = {f"M{i}": fields(n=UnionOf((ModelRef(f"M{i + 1}"), Null()))) for i in range(2000)}

    assert model_named({**chain, "M2000": fields()}, "M0").read('{"n": {"n": null}}') == {"n": {"n": None}}


def test_the_agents_of_the_registry_answer_with_their_models_and_no_others(tmp_path: Path) -> None:
    outputs = {
        "models": {"M": {"type": "model", "description": "All of it.", "fields": {"a": {"type": "int"}}}},
        "registry": {"A": "M", "B": None},
    }
    found = build_chat(load(tmp_path / "p", structured_outputs=outputs), {}, tmp_path / "p")

    assert set(found.output_models) == {"A"}
    assert found.output_models["A"].read('{"a": 1}') == {"a": 1}
    assert found.agents["A"].response_schema is found.output_models["A"].schema
    assert found.agents["B"].response_schema is None
