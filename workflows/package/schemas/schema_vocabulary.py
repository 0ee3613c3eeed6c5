"""Functions that build the parts of JSON Schemas for package files."""

from collections.abc import Mapping, Sequence
from typing import Any

Schema = dict[str, Any]


def text(description: str, **keywords: Any) -> Schema:
    return {"type": "string", "description": description, **keywords}


def nullable_text(description: str) -> Schema:
    return {"type": ["string", "null"], "description": description}


def flag(description: str) -> Schema:
    return {"type": ["boolean", "string", "integer", "null"], "description": description}


def whole(description: str, *, minimum: int = 1) -> Schema:
    return {"type": ["integer", "null"], "minimum": minimum, "description": description}


def above_zero(description: str) -> Schema:
    return {"type": ["number", "null"], "exclusiveMinimum": 0, "description": description}


def one_of(values: Sequence[Any], description: str) -> Schema:
    return {"enum": [*values, None], "description": description}


def names(description: str) -> Schema:
    return {"type": ["array", "null"], "items": {"type": "string"}, "description": description}


def items(schema: Schema) -> Schema:
    return {"type": ["array", "null"], "items": schema}


def by_name(schema: Schema) -> Schema:
    return {"type": ["object", "null"], "additionalProperties": schema}


def either(*schemas: Schema, description: str = "") -> Schema:
    return {"anyOf": list(schemas), **({"description": description} if description else {})}


def ref(name: str) -> Schema:
    return {"$ref": f"#/definitions/{name}"}


def mapping(description: str, fields: Mapping[str, Schema], **keywords: Any) -> Schema:
    """Builds an object.

    Unlisted fields are allowed: the loader reports what it does not execute.
    """
    return {"type": "object", "description": description, "properties": dict(fields), **keywords}


VERSION_FIELDS: Mapping[str, Schema] = {
    "schema_version": text("Version of the file format; read without effect"),
    "version": {"description": "Version of this file; read without effect"},
    "$schema": text("The schema's location, for editors"),
}
ANY_VALUE: Schema = {}


def read_only_fields(*fields: str) -> dict[str, Schema]:
    return {name: {"description": "Read without effect"} for name in fields}


def not_executed_fields(*fields: str) -> dict[str, Schema]:
    return {name: {"description": "Not executed: a finding"} for name in fields}
