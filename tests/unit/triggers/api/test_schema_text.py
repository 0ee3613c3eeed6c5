"""Schemas in words, and the examples that are made of them."""

from typing import Any

import pytest

from triggers.api.schema_text import Schemas

DOCUMENT = {
    "components": {
        "schemas": {
            "State": {"type": "string", "enum": ["queued", "running"]},
            "Order": {
                "type": "object",
                "required": ["name", "state"],
                "properties": {
                    "name": {"type": "string", "maxLength": 9, "description": "Whose"},
                    "state": {"$ref": "#/components/schemas/State"},
                    "more": {"anyOf": [{"$ref": "#/components/schemas/Order"}, {"type": "null"}]},
                },
            },
            "Named": {"type": "object", "properties": {}, "examples": [{"name": "x"}]},
        }
    }
}
SCHEMAS = Schemas(DOCUMENT)


def ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string"}, "text"),
        ({"type": "string", "format": "date-time"}, "time"),
        ({"type": "integer", "minimum": 0, "maximum": 9.0}, "whole number, 0 to 9"),
        ({"type": "integer", "minimum": 1, "maximum": 1e9}, "whole number, 1 or more"),
        ({"type": "array", "items": ref("State")}, "list of queued | running"),
        ({"anyOf": [ref("Order"), {"type": "null"}]}, "Order or null"),
        ({"const": "webhook"}, "webhook"),
        ({}, "any value"),
    ],
)
def test_a_schema_in_words(schema: dict[str, Any], words: str) -> None:
    assert SCHEMAS.describe_type(schema) == words


def test_the_fields_of_one_and_of_several_objects() -> None:
    [name, state, more] = SCHEMAS.fields(ref("Order"))
    assert (name.name, name.type, name.needed, name.description) == ("name", "text, up to 9 characters", True, "Whose")
    assert (state.type, more.type, more.needed) == ("queued | running", "Order or null", False)
    assert len(list(SCHEMAS.fields({"oneOf": [ref("Order"), ref("Order")]}))) == 6


def test_an_example_is_the_authors_own_or_has_what_is_needed() -> None:
    assert SCHEMAS.example(ref("Named")) == {"name": "x"}
    assert SCHEMAS.example(ref("Order")) == {"name": "text", "state": "queued"}
    assert SCHEMAS.example({"anyOf": [ref("Order"), {"type": "null"}]}) == {"name": "text", "state": "queued"}
    assert SCHEMAS.example({"type": "object", "additionalProperties": True}) == {}


def test_a_schema_that_holds_itself_comes_to_an_end() -> None:
    schemas = Schemas({"components": {"schemas": {"Self": {"anyOf": [ref("Self")]}}}})

    assert schemas.example(ref("Self")) == "text"
    assert "…" in schemas.describe_type(
        {"anyOf": [{"anyOf": [{"anyOf": [{"anyOf": [{"anyOf": [{"anyOf": [{"anyOf": [{}]}]}]}]}]}]}]}
    )
