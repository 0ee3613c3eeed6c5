"""Size limits: values as plain JSON of a limited size, singly and together."""

import json
from collections.abc import Mapping
from typing import Any

from workflows.context.values.value_sizes import count_values, is_deeper_than

MAX_VALUE_BYTES = 256 * 1024
MAX_CONTEXT_BYTES = 2 * 1024 * 1024
# Above the 180 levels that MongoDB stores. Python's own limit differs by version: from 3.12 on it is ten times as high.
MAX_LEVELS = 200


class TooLargeError(ValueError):
    """A value is too large; the text names the limit."""


def to_plain_json(value: Any) -> Any:
    """Copies a value as a checkpoint stores it, with dates and ids as text.

    Raises TooLargeError."""
    return json.loads(to_json_text(value))


def to_json_text(value: Any, *, max_bytes: int = MAX_VALUE_BYTES) -> str:
    """Writes JSON text. Raises TooLargeError."""
    too_large = TooLargeError(f"the value is larger than {max_bytes // 1024} KB; name narrower fields")
    too_deep = TooLargeError("the value is nested too deeply")
    # Checked before it is written: a few shared lists can stand for more text than there is memory.
    if not is_smaller_than(max_bytes, value):
        raise too_large
    if is_deeper_than(MAX_LEVELS, value):
        raise too_deep
    try:
        text = json.dumps(value, default=str)
    except RecursionError:  # the caller itself is deep in the stack
        raise too_deep from None
    if len(text) > max_bytes:
        raise too_large
    return text


def is_smaller_than(max_bytes: int, value: Any) -> bool:
    """Checks a value before it is written out: its JSON text is never shorter than what is counted here."""
    return count_values(value, max_bytes, with_keys=True) <= max_bytes


def check_context_size(values: Mapping[str, Any]) -> None:
    """Raises TooLargeError with the names of the largest values."""
    sizes = {name: _json_size(value) for name, value in values.items()}
    if sum(sizes.values()) > MAX_CONTEXT_BYTES:
        largest = sorted(sizes, key=lambda name: sizes[name], reverse=True)[:3]
        largest_sizes = ", ".join(f"{name} ({_format_size(sizes[name])})" for name in largest)
        raise TooLargeError(f"the context is larger than {MAX_CONTEXT_BYTES // 1024} KB; largest: {largest_sizes}")


def _json_size(value: Any) -> int:
    try:
        return len(to_json_text(value, max_bytes=MAX_CONTEXT_BYTES))
    except TooLargeError:
        return MAX_CONTEXT_BYTES + 1
    except (TypeError, ValueError):  # keys that are no text, as YAML has them
        return len(repr(value))


def _format_size(size: int) -> str:
    return f"{size // 1024} KB" if size <= MAX_CONTEXT_BYTES else f"above {MAX_CONTEXT_BYTES // 1024} KB"
