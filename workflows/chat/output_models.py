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

from workflows.chat.errors import PackageDefect
from workflows.chat.models import Models
from workflows.chat.output_schemas import OutputSchema
from workflows.package.models import Package
from workflows.package.structured import (
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
    reachable,
    resolved,
)

MOST_PROBLEMS = 5
LONGEST_PROBLEM = 200


def _finite(value: Any) -> Any:
    """Open values are not looked into otherwise, and Python reads NaN, which is no JSON."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise PydanticCustomError("finite_number", "a number in it is not JSON") from None
    return value


_SCALARS: Mapping[str, CoreSchema] = {
    "str": core.str_schema(),
    "int": core.int_schema(),
    "bool": core.bool_schema(),
    "float": core.float_schema(allow_inf_nan=False),
    "dict": core.no_info_after_validator_function(_finite, core.dict_schema(core.str_schema())),
    "any": core.no_info_after_validator_function(_finite, core.any_schema()),
}


class Unfit(Exception):  # noqa: N818 -- said to the model, which may answer again
    """What was said does not fit the model; the text says where, for the model and for people."""


@dataclass(frozen=True, slots=True)
class AnswerModel:
    """`schema` is what the agent's model is told. Keys that the model does not have are left out of what is read."""

    name: str
    schema: OutputSchema
    is_object: bool
    validator: SchemaValidator

    @staticmethod
    def of(
        models: Mapping[str, OutputModel], name: str, provider: ModelProvider = ModelProvider.OPENAI
    ) -> "AnswerModel":
        """PackageDefect when it cannot be compiled."""
        is_object = isinstance(resolved(models, name), InlineModel)
        return AnswerModel(name, OutputSchema(models, name, provider), is_object, _validator(models, name))

    def read(self, text: str) -> Any:
        """What this JSON says, with defaults for what it leaves out."""
        try:
            return self.validator.validate_json(text)
        except ValidationError as error:
            raise Unfit("; ".join(_problems(error))) from None


def build_output_models(package: Package, models: Models) -> dict[str, AnswerModel]:
    """By agent. PackageDefect when a model cannot be compiled."""
    return {
        agent: AnswerModel.of(package.outputs.models, name, models.get(package.agents[agent].model).provider)
        for agent, name in package.outputs.registry.items()
        if agent in package.agents
    }


def _validator(models: Mapping[str, OutputModel], root: str) -> SchemaValidator:
    used = dict.fromkeys((root, *(kind.name for _, kind in reachable(models, root) if isinstance(kind, ModelRef))))
    schema = core.definitions_schema(_reference(root), [_definition(name, models) for name in used])
    try:
        return SchemaValidator(schema, core.CoreConfig(allow_inf_nan=False))
    except SchemaError as error:
        raise PackageDefect(f"the model {root} cannot be built: {str(error).splitlines()[0]}") from None


def _definition(name: str, models: Mapping[str, OutputModel]) -> CoreSchema:
    return {**_core(resolved(models, name)), "ref": name}


def _reference(name: str) -> CoreSchema:
    return core.definition_reference_schema(name)


def _core(kind: OutputType) -> CoreSchema:
    match kind:
        case Scalar(name):
            return _SCALARS[name]
        case Null():
            return core.none_schema()
        case ListOf(items):
            return core.list_schema(_core(items))
        case LiteralOf(values):
            return _literal(values)
        case UnionOf(variants):
            return core.union_schema([(_core(each), _label(each)) for each in variants])
        case ModelRef(name):
            return _reference(name)
        case InlineModel(fields):
            return core.typed_dict_schema(
                {name: _field(each) for name, each in fields.items()}, extra_behavior="ignore"
            )


def _field(each: OutputField) -> core.TypedDictField:
    if each.required:
        return core.typed_dict_field(_core(each.type), required=True)
    return core.typed_dict_field(core.with_default_schema(_core(each.type), default=each.default), required=False)


def _literal(values: tuple[Any, ...]) -> CoreSchema:
    if all(isinstance(each, str) for each in values):
        return core.literal_schema(list(values))
    known = {_kind_and_value(each): each for each in values}
    wanted = f"Input should be {' or '.join(map(json.dumps, values))}"

    def one_of_them(value: Any) -> Any:
        try:
            return known[_kind_and_value(value)]
        except (KeyError, TypeError):  # TypeError: a list or an object
            raise PydanticCustomError("literal_error", wanted) from None

    return core.no_info_plain_validator_function(one_of_them)


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


def _problems(error: ValidationError) -> Iterator[str]:
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    for each in errors[:MOST_PROBLEMS]:
        place = ".".join(map(str, each["loc"]))
        problem = f"{place}: {each['msg']}" if place else each["msg"]
        yield problem if len(problem) <= LONGEST_PROBLEM else f"{problem[: LONGEST_PROBLEM - 1]}…"
    if len(errors) > MOST_PROBLEMS:
        yield f"and {len(errors) - MOST_PROBLEMS} more"
