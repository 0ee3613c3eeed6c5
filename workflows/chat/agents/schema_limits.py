"""Schema limits: the largest JSON schema a provider compiles before refusing it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ag2.config import ModelProvider

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SchemaLimits:
    """Limits of one provider.

    `max_choices` counts types with alternatives, `max_values` the values of literals, `max_characters` all names and
    values."""

    max_properties: int
    max_levels: int
    max_values: int
    max_characters: int
    max_choices: int
    max_literal_characters: int = 15_000  # characters of a literal that has more than 250 values
    allows_recursion: bool = False


# Published by OpenAI. Ollama compiles on the user's own machine and publishes none.
WIDE_LIMITS = SchemaLimits(
    max_properties=5_000,
    max_levels=10,
    max_values=1_000,
    max_characters=120_000,
    max_choices=10_000,
    allows_recursion=True,
)
# Anthropic publishes the number of choices, and refuses what compiles to too large a grammar; so does Gemini.
NARROW_LIMITS = SchemaLimits(max_properties=50, max_levels=6, max_values=100, max_characters=10_000, max_choices=16)

_LARGE_LITERAL_VALUES = 250


def schema_limits_for(provider: ModelProvider) -> SchemaLimits:
    return WIDE_LIMITS if provider in (ModelProvider.OPENAI, ModelProvider.OLLAMA) else NARROW_LIMITS


def fits_limits(schema: Schema, limits: SchemaLimits) -> bool:
    parts = list(_walk_schema(schema, 0))
    literals = [part.get("enum", ()) for part, _ in parts]
    names = [len(name) for part, _ in parts for section in ("properties", "$defs") for name in part.get(section, ())]
    large = [_count_characters(values) for values in literals if len(values) > _LARGE_LITERAL_VALUES]
    return (
        sum(len(part.get("properties", ())) for part, _ in parts) <= limits.max_properties
        and max(level for _, level in parts) <= limits.max_levels
        and sum(map(len, literals)) <= limits.max_values
        and sum(names) + sum(map(_count_characters, literals)) <= limits.max_characters
        and sum("anyOf" in part for part, _ in parts) <= limits.max_choices
        and max(large, default=0) <= limits.max_literal_characters
    )


def _count_characters(values: Any) -> int:
    return sum(len(str(value)) for value in values)


def _walk_schema(schema: Schema, level: int) -> Iterator[tuple[Schema, int]]:
    """Yields each schema with the number of objects around it, itself included."""
    level += "properties" in schema
    yield schema, level
    for part in (*schema.get("properties", {}).values(), *schema.get("anyOf", ()), schema.get("items")):
        if part is not None:
            yield from _walk_schema(part, level)
    for part in schema.get("$defs", {}).values():
        yield from _walk_schema(part, 0)
