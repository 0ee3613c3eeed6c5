"""Output schemas: strict for providers where possible, else in the prompt."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from ag2.config import ModelProvider
from jsonschema import Draft202012Validator

from tests.unit.workflows.chat.agents.test_output_models import ANY, BOOL, DICT, FLOAT, INT, ODD_NAMES, STR, fields
from workflows.chat.agents.output_schemas import MAX_NAME_CHARACTERS, OutputSchema, open_schema
from workflows.chat.agents.schema_limits import NARROW_LIMITS, WIDE_LIMITS
from workflows.package.normal_form.structured_outputs import (
    InlineModel,
    ListOf,
    LiteralOf,
    ModelRef,
    Null,
    OutputField,
    OutputModel,
    OutputType,
    UnionOf,
)

TREE = fields(v=INT, kids=ListOf(ModelRef("M")))


def schema(
    bodies: Mapping[str, OutputType], provider: ModelProvider = ModelProvider.OPENAI, *, description: str = ""
) -> OutputSchema:
    return OutputSchema({name: OutputModel(name, body, description) for name, body in bodies.items()}, "M", provider)


def parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for name in ("properties", "$defs"):
        for each in schema.get(name, {}).values():
            yield from parts(each)
    for each in (*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])):
        yield from parts(each)


def breaches(schema: dict[str, Any]) -> list[str]:
    """Finds what the strictest provider forbids in a strict schema."""
    faults: dict[str, Callable[[dict[str, Any]], bool]] = {
        "something beside a reference": lambda part: "$ref" in part and len(part) > 1,
        "no type": lambda part: part.keys().isdisjoint({"type", "anyOf", "$ref"}),
        "open": lambda part: part.get("type") == "object" and part.get("additionalProperties") is not False,
        "optional": lambda part: part.get("type") == "object" and set(part["required"]) != set(part["properties"]),
        "a default": lambda part: "default" in part,
    }
    return [fault for part in parts(schema) for fault, is_there in faults.items() if is_there(part)]


STRICT: list[dict[str, OutputType]] = [
    {"M": fields(a=STR, b=INT, c=BOOL, d=FLOAT, e=Null())},
    {"M": fields()},
    {"M": TREE},
    {"M": fields(a=ModelRef("N")), "N": fields(b=UnionOf((ModelRef("M"), Null())))},
    {"M": fields(a=ModelRef("N")), "N": ListOf(LiteralOf(("a", 1, 1.5, True, None)))},
    {"M": ModelRef("N"), "N": ModelRef("O"), "O": fields(a=STR)},
    {"M": fields(a=UnionOf((STR, UnionOf((STR, Null()))))), "Unused": fields(a=ANY)},
    {"M": InlineModel({"a": OutputField(STR, "What it is.", required=False, default="x")})},
    {"M": InlineModel({"a": OutputField(ModelRef("N"), "What it is.")}), "N": fields(b=STR)},
    {"M": InlineModel({name: OutputField(STR) for name in ODD_NAMES})},
    {"M": fields(a=UnionOf((fields(b=INT), fields(c=INT), fields(), Null())))},
    {
        "M": fields(a=UnionOf((ModelRef("N"), fields(kind=LiteralOf(("o",)))))),
        "N": fields(kind=ModelRef("Kind")),
        "Kind": LiteralOf(("n",)),
    },
]


@pytest.mark.parametrize("bodies", STRICT)
def test_a_strict_schema_is_what_providers_take(bodies: dict[str, OutputType]) -> None:
    found = schema(bodies)

    assert found.system_prompt is None
    assert found.json_schema is not None
    assert found.json_schema["type"] == "object"
    Draft202012Validator.check_schema(found.json_schema)
    assert breaches(found.json_schema) == []


DEEP: OutputType = INT
for _ in range(WIDE_LIMITS.max_levels + 1):
    DEEP = fields(a=DEEP)

PROMPTED: list[dict[str, OutputType]] = [
    {"M": fields(a=DICT)},
    {"M": fields(a=ListOf(ANY))},
    {"M": fields(a=UnionOf((ModelRef("N"), Null()))), "N": fields(b=DICT)},
    {"M": ListOf(STR)},
    {"M": UnionOf((fields(a=INT), fields(b=INT)))},
    {"M": LiteralOf(("a", "b"))},
    {"M": DEEP},
    {"M": fields(a=UnionOf((ModelRef("N"), fields(b=INT)))), "N": ModelRef("O"), "O": fields(b=STR)},
    {"M": fields(a=UnionOf((fields(b=LiteralOf(("x", "y"))), fields(b=LiteralOf(("y",))))))},
    {"M": fields(a=LiteralOf(tuple(f"{each:080}" for each in range(251))))},
]
TOO_LARGE: list[dict[str, OutputType]] = [
    {"M": fields(**{f"f{each}": INT for each in range(WIDE_LIMITS.max_properties + 1)})},
    {"M": fields(a=LiteralOf(tuple(str(each) for each in range(WIDE_LIMITS.max_values + 1))))},
    {"M": fields(**{"a" * (WIDE_LIMITS.max_characters + 1): INT})},
]


@pytest.mark.parametrize("bodies", [*PROMPTED, *TOO_LARGE])
def test_what_no_strict_schema_can_express_stands_in_the_prompt(bodies: dict[str, OutputType]) -> None:
    found = schema(bodies)

    assert found.json_schema is None
    assert found.system_prompt is not None
    assert found.system_prompt.startswith("Answer with one JSON ")


@pytest.mark.parametrize("bodies", PROMPTED)
def test_what_stands_in_the_prompt_is_a_schema(bodies: dict[str, OutputType]) -> None:
    Draft202012Validator.check_schema(open_schema({n: OutputModel(n, body) for n, body in bodies.items()}, "M"))


@pytest.mark.parametrize(
    ("provider", "native"),
    [
        (ModelProvider.OPENAI, True),
        (ModelProvider.OLLAMA, True),
        (ModelProvider.ANTHROPIC, False),
        (ModelProvider.GEMINI, False),
    ],
)
def test_a_model_that_holds_itself_goes_to_providers_that_take_one(provider: ModelProvider, native: bool) -> None:
    twice = fields(a=ModelRef("N"), b=ModelRef("N"))

    assert (schema({"M": TREE}, provider).json_schema is not None) is native
    assert schema({"M": twice, "N": fields(c=INT)}, provider).json_schema is not None


@pytest.mark.parametrize(
    ("choices", "native"), [(NARROW_LIMITS.max_choices, True), (NARROW_LIMITS.max_choices + 1, False)]
)
def test_what_a_provider_does_not_compile_is_not_sent_to_it(choices: int, native: bool) -> None:
    bodies = {"M": fields(**{f"f{each}": UnionOf((STR, Null())) for each in range(choices)})}

    assert (schema(bodies, ModelProvider.ANTHROPIC).json_schema is not None) is native
    assert schema(bodies, ModelProvider.OPENAI).json_schema is not None


def test_descriptions_reach_the_model() -> None:
    body = InlineModel({"a": OutputField(STR, "Why."), "b": OutputField(ModelRef("N"), "Which.")})
    found = schema({"M": body, "N": LiteralOf(("x", None))}, description="A verdict.")

    assert found.description == "A verdict."
    assert found.json_schema == {
        "type": "object",
        "properties": {
            "a": {"type": "string", "description": "Why."},
            "b": {"anyOf": [{"$ref": "#/$defs/N"}], "description": "Which."},
        },
        "required": ["a", "b"],
        "additionalProperties": False,
        "$defs": {
            "N": {"anyOf": [{"type": "string", "enum": ["x"]}, {"type": "null"}], "description": "A verdict."},
        },
    }


def test_in_a_prompt_defaults_are_shown_and_only_needed_fields_required() -> None:
    body = InlineModel({"a": OutputField(DICT), "b": OutputField(INT, required=False, default=7)})

    assert open_schema({"M": OutputModel("M", body)}, "M") == {
        "type": "object",
        "properties": {
            "a": {"type": "object", "additionalProperties": True},
            "b": {"type": "integer", "default": 7},
        },
        "required": ["a"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("name", ["A verdict/1", "é", "x" * 200, "$"])
def test_a_name_goes_to_the_provider_as_it_takes_one(name: str) -> None:
    found = OutputSchema({name: OutputModel(name, fields(a=INT))}, name, ModelProvider.OPENAI)

    assert 0 < len(found.name) <= MAX_NAME_CHARACTERS
    assert found.name.replace("_", "").replace("-", "").isascii()
    assert found.name.replace("_", "a").isalnum()
