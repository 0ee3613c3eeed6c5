"""Schema text: describes OpenAPI schemas in words, and builds examples of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Schema = Mapping[str, Any]

_MAX_DEPTH = 6
_UNBOUNDED_FROM = 10**6  # higher limits are not worth showing
_PLAIN_EXAMPLES: Mapping[str, Any] = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "null": None}


@dataclass(frozen=True, slots=True)
class SchemaField:
    name: str
    type: str
    needed: bool
    description: str
    default: Any = None


class Schemas:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._components: Mapping[str, Schema] = document["components"]["schemas"]

    def fields(self, schema: Schema) -> Iterator[SchemaField]:
        """Yields the fields of an object, or of all alternatives."""
        for choice in self._object_choices(schema):
            needed = choice.get("required", ())
            for name, field in choice.get("properties", {}).items():
                yield SchemaField(
                    name,
                    self.describe_type(field),
                    name in needed,
                    self._attribute_of(field, "description") or "",
                    field.get("default"),
                )

    def describe_type(self, schema: Schema, depth: int = 0) -> str:
        if depth > _MAX_DEPTH:
            return "…"
        if "$ref" in schema:
            return self._describe_reference(schema, depth)
        choices = self._alternatives(schema)
        if choices:
            return " or ".join(dict.fromkeys(self.describe_type(choice, depth + 1) for choice in choices))
        if "enum" in schema or "const" in schema:
            return " | ".join(str(value) for value in schema.get("enum", [schema.get("const")]))
        if schema.get("type") == "array":
            return f"list of {self.describe_type(schema.get('items', {}), depth + 1)}"
        return _describe_plain_type(schema)

    def _describe_reference(self, schema: Schema, depth: int) -> str:
        name = str(schema["$ref"]).rpartition("/")[2]
        found = self._components[name]
        return self.describe_type(found, depth + 1) if "enum" in found else name

    def example(self, schema: Schema, depth: int = 0) -> Any:
        """Returns the schema's own example, or one with its required fields."""
        schema = self._resolve(schema)
        if schema.get("examples"):
            return schema["examples"][0]
        for name in ("example", "const", "default"):
            if schema.get(name) is not None:
                return schema[name]
        choices = self._alternatives(schema)
        if depth > _MAX_DEPTH or not (choices or "properties" in schema or "enum" in schema):
            return _PLAIN_EXAMPLES.get(str(schema.get("type")), {} if schema.get("type") == "object" else "text")
        if choices:
            return self.example(choices[0], depth + 1)
        if "enum" in schema:
            return schema["enum"][0]
        needed = schema.get("required", ())
        properties = schema["properties"].items()
        return {name: self.example(field, depth + 1) for name, field in properties if name in needed}

    def _object_choices(self, schema: Schema) -> Sequence[Schema]:
        found = self._resolve(schema)
        alternatives = self._alternatives(found)
        return (
            [choice for schema in alternatives for choice in self._object_choices(schema)] if alternatives else [found]
        )

    def _resolve(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            schema = self._components[str(schema["$ref"]).rpartition("/")[2]]
        return schema

    def _attribute_of(self, schema: Schema, name: str) -> Any:
        return schema.get(name) or (self._resolve(schema).get(name) if "$ref" in schema else None)

    @staticmethod
    def _alternatives(schema: Schema) -> Sequence[Schema]:
        if "properties" in schema:  # its alternatives only name required fields
            return []
        return [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())]


def _describe_plain_type(schema: Schema) -> str:
    kinds = schema.get("type", "any value")
    kind = " or ".join(kinds) if isinstance(kinds, list) else str(kinds)
    words = {"string": "text", "integer": "whole number", "boolean": "true or false"}.get(kind, kind)
    if schema.get("format") == "date-time":
        words = "time"
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{words}, {low:g} to {high:g}" if high < _UNBOUNDED_FROM else f"{words}, {low:g} or more"
    longest = schema.get("maxLength")
    return f"{words}, up to {longest} characters" if longest else words
