"""Bounds: values as plain JSON of a limited size, one by one and all together."""

import json
from collections.abc import Mapping
from typing import Any

MAX_VALUE_BYTES = 256 * 1024
MAX_CONTEXT_BYTES = 2 * 1024 * 1024
MAX_LEVELS = 200  # MongoDB takes 180. Python's own bound differs by version: from 3.12 on it is ten times as high.


class TooLargeError(ValueError):
    """The text says what the bound is."""


def to_plain_json(value: Any) -> Any:
    """A copy as it is after a checkpoint: dates and ids as text. Raises TooLargeError."""
    return json.loads(to_json_text(value))


def to_json_text(value: Any, *, max_bytes: int = MAX_VALUE_BYTES) -> str:
    # Weighed first: a few shared lists can stand for more text than there is memory.
    too_large = TooLargeError(f"the value is larger than {max_bytes // 1024} KB; name narrower fields")
    if not is_smaller_than(max_bytes, value):
        raise too_large
    if not nests_at_most(MAX_LEVELS, value):
        raise TooLargeError("the value is nested too deeply")
    try:
        text = json.dumps(value, default=str)
    except RecursionError:  # called from deep inside
        raise TooLargeError("the value is nested too deeply") from None
    if len(text) > max_bytes:
        raise too_large
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


def nests_at_most(levels: int, value: Any) -> bool:
    """For a value whose weight is bounded: it is walked level by level."""
    level = [value]
    for _ in range(levels + 1):
        nested = [item for item in level if isinstance(item, Mapping | list | tuple)]
        if not nested:
            return True
        level = [inner for item in nested for inner in (item.values() if isinstance(item, Mapping) else item)]
    return False


def check_context_size(values: Mapping[str, Any]) -> None:
    """Raises TooLargeError, which names the largest values."""
    sizes = {name: _json_size(value) for name, value in values.items()}
    if sum(sizes.values()) > MAX_CONTEXT_BYTES:
        largest = sorted(sizes, key=lambda name: sizes[name], reverse=True)[:3]
        named = ", ".join(f"{name} ({_format_size(sizes[name])})" for name in largest)
        raise TooLargeError(f"the context is larger than {MAX_CONTEXT_BYTES // 1024} KB; largest: {named}")


def _json_size(value: Any) -> int:
    try:
        return len(to_json_text(value, max_bytes=MAX_CONTEXT_BYTES))
    except TooLargeError:
        return MAX_CONTEXT_BYTES + 1
    except (TypeError, ValueError):  # keys that are no text, from YAML
        return len(repr(value))


def _format_size(size: int) -> str:
    return f"{size // 1024} KB" if size <= MAX_CONTEXT_BYTES else f"above {MAX_CONTEXT_BYTES // 1024} KB"
