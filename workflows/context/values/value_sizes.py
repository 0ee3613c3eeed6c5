"""Sizes of values, found without writing them out: a few shared lists can stand for more than memory holds."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

MAX_DEPTH = 60  # MongoDB refuses documents nested deeper than 100; a run adds levels of its own
MAX_INTEGER = 2**63 - 1
_TEXT = (str, bytes)
_LIST = (list, tuple)
_NO_NULL = frozenset("\x00")


def count_values(value: Any, limit: int, *, characters_per_value: int | None = 1, with_keys: bool = False) -> int:
    """Counts a value and all values in it; text counts more by its length, or not if `characters_per_value` is None.

    Stops soon after `limit`, so that cycles end. A value that stands in several places counts each time.
    """
    waiting, count = [value], 0
    while waiting and count <= limit:
        item = waiting.pop()
        count += 1
        if isinstance(item, _TEXT):
            if characters_per_value is not None:
                count += len(item) // characters_per_value
        elif isinstance(item, _LIST):
            waiting += item
        elif isinstance(item, Mapping):
            waiting += item.values()
            if with_keys:
                waiting += item.keys()
    return count


def is_deeper_than(max_depth: int, value: Any) -> bool:
    """Checks whether containers are nested in more than `max_depth` levels. The value must not refer to itself."""
    level = [value]
    for _ in range(max_depth + 1):
        level = [item for container in level for item in _members(container)]
        if not level:
            return False
    return True


def _members(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, _LIST) else ()


def estimate_bytes(
    value: Any, *, max_bytes: int, unfit_in_keys: frozenset[str] = _NO_NULL, seen: set[int] | None = None
) -> float:
    """Returns roughly the stored size of plain JSON; infinite for any other value and for containers above `max_bytes`.

    A container that stands in two places is not plain: once stored, a change in one of them no longer shows in the
    other. `seen` carries the containers from one value to the next.
    """
    seen = set() if seen is None else seen
    total, level = 0.0, [value]
    for depth in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is not dict and kind is not list:
                total += _leaf_bytes(item, kind)
            elif depth == MAX_DEPTH or id(item) in seen:
                return math.inf
            else:
                seen.add(id(item))
                total += _add_members(item.copy(), below, unfit_in_keys)  # one step: a tool's thread may change it
            if total > max_bytes:
                return math.inf
        if not below:
            break
        level = below
    return total


def _add_members(container: Any, below: list[Any], unfit_in_keys: frozenset[str]) -> float:
    """Returns the size of a container without its members, which it appends to `below`."""
    size: float = 8 + 8 * len(container)
    if type(container) is list:
        below += container
        return size
    for key in container:
        if type(key) is not str or not unfit_in_keys.isdisjoint(key):
            return math.inf
        size += len(key) if key.isascii() else _text_bytes(key)
    below += container.values()
    return size


def _leaf_bytes(value: Any, kind: type[Any]) -> float:
    if kind is str:
        return len(value) if value.isascii() else _text_bytes(value)
    if kind is int:
        return 8 if -MAX_INTEGER - 1 <= value <= MAX_INTEGER else math.inf
    if kind is float:
        return 8 if math.isfinite(value) else math.inf
    return 8 if value is None or kind is bool else math.inf


def _text_bytes(text: str) -> float:
    try:
        return len(text.encode())
    except UnicodeEncodeError:  # a lone surrogate
        return math.inf
