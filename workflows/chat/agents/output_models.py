"""Output models: validators of agents' answers, compiled once per package version.

Authors may give models and fields any name, also one that no Python class can have. So the models are written in
pydantic's core schema language instead of as classes, and a read answer is plain JSON data under those names.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ag2.config import ModelProvider
from pydantic_core import CoreSchema, PydanticCustomError, SchemaError, SchemaValidator, ValidationError
from pydantic_core import core_schema as core

from workflows.chat.agents.output_schemas import OutputSchema
from workflows.chat.chat_errors import PackageDefect
from workflows.chat.providers.model_registry import ModelRegistry
from workflows.context.values.value_text import shorten
from workflows.package.normal_form.package_model import Package
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
    iter_reachable,
    resolve_alias,
)

MAX_PROBLEMS = 5
MAX_PROBLEM_CHARACTERS = 200


def _check_finite(value: Any) -> Any:
    """Refuses NaN and infinity: Python reads them, and JSON has no such numbers."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise PydanticCustomError("finite_number", "a number in it is not JSON") from None
    return value


_SCALAR_SCHEMAS: Mapping[str, CoreSchema] = {
    "str": core.str_schema(),
    "int": core.int_schema(),
    "bool": core.bool_schema(),
    "float": core.float_schema(allow_inf_nan=False),
    "dict": core.no_info_after_validator_function(_check_finite, core.dict_schema(core.str_schema())),
    "any": core.no_info_after_validator_function(_check_finite, core.any_schema()),
}


class ReplyMismatch(Exception):  # noqa: N818 -- sent to the model, which may answer again
    """The answer does not fit the model; the text locates the problem."""


@dataclass(frozen=True, slots=True)
class ReplyModel:
    """A compiled model.

    `schema` is what the agent's model receives. Keys that the model does not declare are dropped when an answer is
    read."""

    name: str
    schema: OutputSchema
    is_object: bool
    validator: SchemaValidator

    @staticmethod
    def compile(
        models: Mapping[str, OutputModel], name: str, provider: ModelProvider = ModelProvider.OPENAI
    ) -> "ReplyModel":
        """Compiles the model `name`. PackageDefect when it cannot be compiled."""
        is_object = isinstance(resolve_alias(models, name), InlineModel)
        return ReplyModel(name, OutputSchema(models, name, provider), is_object, _build_validator(models, name))

    def read(self, text: str) -> Any:
        """Reads an answer from JSON; defaults replace missing fields."""
        try:
            return self.validator.validate_json(text)
        except ValidationError as error:
            raise ReplyMismatch("; ".join(_describe_problems(error))) from None


def build_output_models(package: Package, models: ModelRegistry) -> dict[str, ReplyModel]:
    """Compiles the models by agent. PackageDefect when one cannot be compiled."""
    return {
        agent: ReplyModel.compile(package.outputs.models, name, models.get(package.agents[agent].model).provider)
        for agent, name in package.outputs.registry.items()
        if agent in package.agents
    }


def _build_validator(models: Mapping[str, OutputModel], root: str) -> SchemaValidator:
    used = dict.fromkeys((root, *(kind.name for _, kind in iter_reachable(models, root) if isinstance(kind, ModelRef))))
    schema = core.definitions_schema(
        core.definition_reference_schema(root), [_definition_schema(name, models) for name in used]
    )
    try:
        return SchemaValidator(schema, core.CoreConfig(allow_inf_nan=False))
    except SchemaError as error:
        raise PackageDefect(f"the model {root} cannot be built: {str(error).splitlines()[0]}") from None


def _definition_schema(name: str, models: Mapping[str, OutputModel]) -> CoreSchema:
    return {**_core_schema(resolve_alias(models, name)), "ref": name}


def _core_schema(kind: OutputType) -> CoreSchema:
    match kind:
        case Scalar(name):
            return _SCALAR_SCHEMAS[name]
        case Null():
            return core.none_schema()
        case ListOf(items):
            return core.list_schema(_core_schema(items))
        case LiteralOf(values):
            return _literal_schema(values)
        case UnionOf(variants):
            return core.union_schema([(_core_schema(variant), _label(variant)) for variant in variants])
        case ModelRef(name):
            return core.definition_reference_schema(name)
        case InlineModel(fields):
            return core.typed_dict_schema(
                {name: _field_schema(field) for name, field in fields.items()}, extra_behavior="ignore"
            )


def _field_schema(field: OutputField) -> core.TypedDictField:
    if field.required:
        return core.typed_dict_field(_core_schema(field.type), required=True)
    return core.typed_dict_field(
        core.with_default_schema(_core_schema(field.type), default=field.default), required=False
    )


def _literal_schema(values: tuple[Any, ...]) -> CoreSchema:
    if all(isinstance(value, str) for value in values):
        return core.literal_schema(list(values))
    known = {_kind_and_value(value): value for value in values}
    expected = f"Input should be {' or '.join(map(json.dumps, values))}"

    def check_value(value: Any) -> Any:
        try:
            return known[_kind_and_value(value)]
        except (KeyError, TypeError):  # TypeError: a list or an object
            raise PydanticCustomError("literal_error", expected) from None

    return core.no_info_plain_validator_function(check_value)


def _kind_and_value(value: Any) -> tuple[bool, Any]:
    """Distinguishes true from 1: equal in Python, different in JSON."""
    return isinstance(value, bool), value


def _label(kind: OutputType) -> str:
    """Names a variant in the text of a problem."""
    match kind:
        case Scalar(name) | ModelRef(name):
            return name
        case Null():
            return "null"
        case ListOf():
            return "list"
        case LiteralOf():
            return "literal"
        case _:
            return "object"


def _describe_problems(error: ValidationError) -> Iterator[str]:
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    for problem_entry in errors[:MAX_PROBLEMS]:
        place = ".".join(map(str, problem_entry["loc"]))
        problem = f"{place}: {problem_entry['msg']}" if place else problem_entry["msg"]
        yield shorten(problem, MAX_PROBLEM_CHARACTERS, counts_mark=True)
    if len(errors) > MAX_PROBLEMS:
        yield f"and {len(errors) - MAX_PROBLEMS} more"
