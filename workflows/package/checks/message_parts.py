"""Parts of messages: lists of names and values, cut to a length."""

from collections.abc import Set as AbstractSet
from typing import Any

_MAX_VALUE_CHARACTERS = 100
_MAX_NAMES = 12


def join_names(names: AbstractSet[str] | tuple[str, ...]) -> str:
    """Joins names as `A, B and C`. Sorts a set, and keeps the order of a tuple."""
    words = list(names) if isinstance(names, tuple) else sorted(names)
    if len(words) > _MAX_NAMES:
        words = [*words[:_MAX_NAMES], f"{len(words) - _MAX_NAMES} more"]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def display(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # a number with thousands of digits
        return f"a huge {type(value).__name__}"
    return text if len(text) <= _MAX_VALUE_CHARACTERS else f"{text[:_MAX_VALUE_CHARACTERS]}…"
