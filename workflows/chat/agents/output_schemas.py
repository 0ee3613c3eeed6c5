"""Output schemas: the form of the answer, as a provider or a prompt receives it.

Where the provider takes a JSON schema, the schema goes with each request and the provider enforces it. Providers take a
strict subset only and refuse anything else: an open mapping, a type that may be anything, a list or a choice instead of
an object at the top. Then the schema is added to the end of the prompt.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any

from ag2.annotations import Context
from ag2.config import ModelProvider
from ag2.response import ResponseProto
from fast_depends import Provider
from typing_extensions import override

from workflows.chat.agents.schema_limits import SchemaLimits, fits_limits, schema_limits_for
from workflows.package.normal_form.structured_outputs import (
    InlineModel,
    ListOf,
    LiteralOf,
    ModelRef,
    OutputField,
    OutputModel,
    OutputType,
    Scalar,
    UnionOf,
    is_recursive,
    iter_reachable,
    resolve_alias,
)

Schema = dict[str, Any]
_NamedField = tuple[str, OutputField]

MAX_NAME_CHARACTERS = 64

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]+")
_SCALARS: Mapping[str, Schema] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "bool": {"type": "boolean"},
    "float": {"type": "number"},
    "dict": {"type": "object", "additionalProperties": True},
    "any": {},
}
_PROMPT = (
    "Answer with one JSON object that fits this JSON schema, and with nothing else: no text around it, no code fence."
    "\n{schema}"
)
_VALUE_PROMPT = _PROMPT.replace("one JSON object", "one JSON value")


class OutputSchema(ResponseProto[str]):
    """A response schema for AG2; `structured_replies` reads and repairs answers."""

    def __init__(self, models: Mapping[str, OutputModel], root: str, provider: ModelProvider) -> None:
        model = models[root]
        self.name = _wire_name(root)
        self.description = model.description or None
        self.json_schema = None
        self.system_prompt = None
        strict = strict_schema(models, root, schema_limits_for(provider))
        if strict is not None:
            self.json_schema = strict
        else:
            prompt = _PROMPT if isinstance(resolve_alias(models, root), InlineModel) else _VALUE_PROMPT
            self.system_prompt = prompt.format(schema=json.dumps(open_schema(models, root), ensure_ascii=False))

    @override
    async def validate(self, response: str, context: Context, provider: Provider | None = None) -> str:
        return response


def strict_schema(models: Mapping[str, OutputModel], root: str, limits: SchemaLimits) -> Schema | None:
    """Returns a strict schema; None if it would lose meaning or be refused."""
    if not isinstance(resolve_alias(models, root), InlineModel) or (
        is_recursive(models, root) and not limits.allows_recursion
    ):
        return None
    if any(_is_open(kind) or _is_ambiguous(kind, models) for _, kind in iter_reachable(models, root)):
        return None
    schema = _SchemaBuilder(models, root, strict=True).build()
    return schema if fits_limits(schema, limits) else None


def _is_open(kind: OutputType) -> bool:
    return kind in (Scalar("dict"), Scalar("any"))


def _is_ambiguous(kind: OutputType, models: Mapping[str, OutputModel]) -> bool:
    """Checks for variants that a strict choice cannot distinguish by the first field."""
    if not isinstance(kind, UnionOf):
        return False
    bodies = [
        resolve_alias(models, variant.name) if isinstance(variant, ModelRef) else variant for variant in kind.variants
    ]
    first = [next(iter(variant.fields.items()), None) for variant in bodies if isinstance(variant, InlineModel)]
    return any(_share_first_field(one, other, models) for one, other in combinations(first, 2))


def _share_first_field(one: _NamedField | None, other: _NamedField | None, models: Mapping[str, OutputModel]) -> bool:
    if one is None or other is None or one[0] != other[0]:
        return one is None and other is None
    values = [_literal_values(field.type, models) for _, field in (one, other)]
    return not all(values) or not values[0].isdisjoint(values[1])


def _literal_values(kind: OutputType, models: Mapping[str, OutputModel]) -> frozenset[Any]:
    body = resolve_alias(models, kind.name) if isinstance(kind, ModelRef) else kind
    return frozenset(body.values if isinstance(body, LiteralOf) else ())


def open_schema(models: Mapping[str, OutputModel], root: str) -> Schema:
    return _SchemaBuilder(models, root, strict=False).build()


class _SchemaBuilder:
    def __init__(self, models: Mapping[str, OutputModel], root: str, *, strict: bool) -> None:
        self._models = models
        self._root = root
        self._strict = strict
        referred = {kind.name: None for _, kind in iter_reachable(models, root) if isinstance(kind, ModelRef)}
        self._keys = dict(_definition_keys(referred))

    def build(self) -> Schema:
        schema = self._type_schema(resolve_alias(self._models, self._root))
        definitions = {key: self._model_schema(self._models[name]) for name, key in self._keys.items()}
        return {**schema, "$defs": definitions} if definitions else schema

    def _model_schema(self, model: OutputModel) -> Schema:
        return _with_description(self._type_schema(model.body), model.description)

    def _type_schema(self, kind: OutputType) -> Schema:
        match kind:
            case Scalar(name):
                return dict(_SCALARS[name])
            case ListOf(items):
                return {"type": "array", "items": self._type_schema(items)}
            case LiteralOf(values):
                return _union_schema(_literal_schemas(values))
            case UnionOf(variants):
                return _union_schema(self._type_schema(variant) for variant in variants)
            case ModelRef(name):
                return {"$ref": f"#/$defs/{self._keys[name]}"}
            case InlineModel(fields):
                return self._object_schema(fields)
        return {"type": "null"}

    def _object_schema(self, fields: Mapping[str, OutputField]) -> Schema:
        return {
            "type": "object",
            "properties": {name: self._field_schema(field) for name, field in fields.items()},
            "required": [name for name, field in fields.items() if self._strict or field.required],
            "additionalProperties": False,
        }

    def _field_schema(self, field: OutputField) -> Schema:
        schema = _with_description(self._type_schema(field.type), field.description)
        has_default = not self._strict and not field.required and field.default is not None
        return {**schema, "default": field.default} if has_default else schema


def _with_description(schema: Schema, description: str) -> Schema:
    if not description:
        return schema
    # A strict schema allows nothing beside a reference.
    return {**({"anyOf": [schema]} if "$ref" in schema else schema), "description": description}


def _union_schema(schemas: Iterable[Schema]) -> Schema:
    flat = [inner for schema in schemas for inner in (schema["anyOf"] if set(schema) == {"anyOf"} else [schema])]
    unlike = [schema for index, schema in enumerate(flat) if schema not in flat[:index]]
    return unlike[0] if len(unlike) == 1 else {"anyOf": unlike}


def _literal_schemas(values: Iterable[Any]) -> Iterator[Schema]:
    """Makes one schema for each JSON type: strict schemas need a type beside values."""
    by_type: dict[str, list[Any]] = {}
    for value in values:
        by_type.setdefault(_json_type(value), []).append(value)
    return (
        {"type": name} if name == "null" else {"type": name, "enum": literals} for name, literals in by_type.items()
    )


def _json_type(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string"}
    return names.get(type(value), "null")


def _definition_keys(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields names with reference keys that need no escaping."""
    taken: set[str] = set()
    for name in names:
        base = _NOT_IN_NAMES.sub("_", name)[:MAX_NAME_CHARACTERS] or "model"
        key, number = base, 1
        while key in taken:
            number += 1
            key = f"{base}_{number}"
        taken.add(key)
        yield name, key


def _wire_name(name: str) -> str:
    return _NOT_IN_NAMES.sub("_", name)[:MAX_NAME_CHARACTERS] or "answer"
