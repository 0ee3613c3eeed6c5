"""Schema limits: how large a JSON schema a provider compiles; a larger one is refused, with the whole request."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ag2.config import ModelProvider

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SchemaLimits:
    """`choices` are types with alternatives, `values` those of literals; `characters` are of all names and values."""

    properties: int
    levels: int
    values: int
    characters: int
    choices: int
    large_literal: int = 15_000  # characters of a literal that has more than 250 values
    recursive: bool = False


# Published by OpenAI. Ollama compiles on the user's own machine and publishes none.
WIDE = SchemaLimits(properties=5_000, levels=10, values=1_000, characters=120_000, choices=10_000, recursive=True)
# Anthropic publishes the number of choices, and refuses what compiles to too large a grammar; so does Gemini.
NARROW = SchemaLimits(properties=50, levels=6, values=100, characters=10_000, choices=16)

_LARGE_LITERAL = 250


def limits_of(provider: ModelProvider) -> SchemaLimits:
    return WIDE if provider in (ModelProvider.OPENAI, ModelProvider.OLLAMA) else NARROW


def is_within(schema: Schema, limits: SchemaLimits) -> bool:
    parts = list(_parts(schema, 0))
    literals = [part.get("enum", ()) for part, _ in parts]
    names = [len(name) for part, _ in parts for each in ("properties", "$defs") for name in part.get(each, ())]
    large = [_characters(each) for each in literals if len(each) > _LARGE_LITERAL]
    return (
        sum(len(part.get("properties", ())) for part, _ in parts) <= limits.properties
        and max(level for _, level in parts) <= limits.levels
        and sum(map(len, literals)) <= limits.values
        and sum(names) + sum(map(_characters, literals)) <= limits.characters
        and sum("anyOf" in part for part, _ in parts) <= limits.choices
        and max(large, default=0) <= limits.large_literal
    )


def _characters(values: Any) -> int:
    return sum(len(str(each)) for each in values)


def _parts(schema: Schema, level: int) -> Iterator[tuple[Schema, int]]:
    """Each with the objects that it stands in, itself included."""
    level += "properties" in schema
    yield schema, level
    for each in (*schema.get("properties", {}).values(), *schema.get("anyOf", ()), schema.get("items")):
        if each is not None:
            yield from _parts(each, level)
    for each in schema.get("$defs", {}).values():
        yield from _parts(each, 0)
