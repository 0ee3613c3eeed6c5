"""Output models: what an agent's answer has to look like, compiled once per package version and shared by its runs.

Names of models and fields are the author's and may be anything, also what no Python class could have, so the models
are written in pydantic's own core language instead of as classes. What is read is plain JSON data under those names.
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
    """Open values are not looked into otherwise, and Python reads NaN, which is no JSON."""
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


class ReplyMismatch(Exception):  # noqa: N818 -- said to the model, which may answer again
    """What was said does not fit the model; the text says where, for the model and for people."""


@dataclass(frozen=True, slots=True)
class ReplyModel:
    """`schema` is what the agent's model is told. Keys that the model does not have are left out of what is read."""

    name: str
    schema: OutputSchema
    is_object: bool
    validator: SchemaValidator

    @staticmethod
    def compile(
        models: Mapping[str, OutputModel], name: str, provider: ModelProvider = ModelProvider.OPENAI
    ) -> "ReplyModel":
        """PackageDefect when it cannot be compiled."""
        is_object = isinstance(resolve_alias(models, name), InlineModel)
        return ReplyModel(name, OutputSchema(models, name, provider), is_object, _build_validator(models, name))

    def read(self, text: str) -> Any:
        """What this JSON says, with defaults for what it leaves out."""
        try:
            return self.validator.validate_json(text)
        except ValidationError as error:
            raise ReplyMismatch("; ".join(_describe_problems(error))) from None


def build_output_models(package: Package, models: ModelRegistry) -> dict[str, ReplyModel]:
    """By agent. PackageDefect when a model cannot be compiled."""
    return {
        agent: ReplyModel.compile(package.outputs.models, name, models.get(package.agents[agent].model).provider)
        for agent, name in package.outputs.registry.items()
        if agent in package.agents
    }


def _build_validator(models: Mapping[str, OutputModel], root: str) -> SchemaValidator:
    used = dict.fromkeys((root, *(kind.name for _, kind in iter_reachable(models, root) if isinstance(kind, ModelRef))))
    schema = core.definitions_schema(_reference_schema(root), [_definition_schema(name, models) for name in used])
    try:
        return SchemaValidator(schema, core.CoreConfig(allow_inf_nan=False))
    except SchemaError as error:
        raise PackageDefect(f"the model {root} cannot be built: {str(error).splitlines()[0]}") from None


def _definition_schema(name: str, models: Mapping[str, OutputModel]) -> CoreSchema:
    return {**_core_schema(resolve_alias(models, name)), "ref": name}


def _reference_schema(name: str) -> CoreSchema:
    return core.definition_reference_schema(name)


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
            return core.union_schema([(_core_schema(each), _label(each)) for each in variants])
        case ModelRef(name):
            return _reference_schema(name)
        case InlineModel(fields):
            return core.typed_dict_schema(
                {name: _field_schema(each) for name, each in fields.items()}, extra_behavior="ignore"
            )


def _field_schema(field: OutputField) -> core.TypedDictField:
    if field.required:
        return core.typed_dict_field(_core_schema(field.type), required=True)
    return core.typed_dict_field(
        core.with_default_schema(_core_schema(field.type), default=field.default), required=False
    )


def _literal_schema(values: tuple[Any, ...]) -> CoreSchema:
    if all(isinstance(each, str) for each in values):
        return core.literal_schema(list(values))
    known = {_kind_and_value(each): each for each in values}
    wanted = f"Input should be {' or '.join(map(json.dumps, values))}"

    def check_value(value: Any) -> Any:
        try:
            return known[_kind_and_value(value)]
        except (KeyError, TypeError):  # TypeError: a list or an object
            raise PydanticCustomError("literal_error", wanted) from None

    return core.no_info_plain_validator_function(check_value)


def _kind_and_value(value: Any) -> tuple[bool, Any]:
    """Python takes true for 1, which JSON does not."""
    return isinstance(value, bool), value


def _label(kind: OutputType) -> str:
    """How a problem names the variant that it is about."""
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
    for each in errors[:MAX_PROBLEMS]:
        place = ".".join(map(str, each["loc"]))
        problem = f"{place}: {each['msg']}" if place else each["msg"]
        yield problem if len(problem) <= MAX_PROBLEM_CHARACTERS else f"{problem[: MAX_PROBLEM_CHARACTERS - 1]}…"
    if len(errors) > MAX_PROBLEMS:
        yield f"and {len(errors) - MAX_PROBLEMS} more"
