"""Size limits: values as plain JSON of a limited size, singly and together."""

import json
from collections.abc import Mapping
from typing import Any

MAX_VALUE_BYTES = 256 * 1024
MAX_CONTEXT_BYTES = 2 * 1024 * 1024


class TooLargeError(ValueError):
    """A value is too large; the text names the limit."""


def to_plain_json(value: Any) -> Any:
    """Copies a value as a checkpoint stores it, with dates and ids as text.

    Raises TooLargeError."""
    return json.loads(to_json_text(value))


def to_json_text(value: Any, *, max_bytes: int = MAX_VALUE_BYTES) -> str:
    # Measured first: a few shared lists can expand to more text than memory holds.
    try:
        text = json.dumps(value, default=str) if is_smaller_than(max_bytes, value) else None
    except RecursionError:
        raise TooLargeError("the value is nested too deeply") from None
    if text is None or len(text) > max_bytes:
        raise TooLargeError(f"the value is larger than {max_bytes // 1024} KB; name narrower fields")
    return text


def is_smaller_than(max_weight: int, value: Any) -> bool:
    """Never more work than `most` steps, for cycles too."""
    left, waiting = max_weight, [value]
    while waiting and left >= 0:
        item = waiting.pop()
        left -= 1
        if isinstance(item, str | bytes):
            left -= len(item)
        elif isinstance(item, Mapping):
            left -= len(item)
            waiting.extend(item.keys())
            waiting.extend(item.values())
        elif isinstance(item, list | tuple):
            left -= len(item)
            waiting.extend(item)
    return left >= 0


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
