"""Condition operators: comparisons of any two values that a context may hold."""

import logging
import operator
from collections.abc import Callable, Mapping
from typing import Any

from workflows.context.values.value_types import equals_strictly

log = logging.getLogger(__name__)

Comparator = Callable[[Any, Any], bool]


class _NoLength:
    """The length of a value without one: false, and every comparison with it is false."""

    def __bool__(self) -> bool:
        return False


NO_LENGTH = _NoLength()

ORDERINGS: Mapping[str, Comparator] = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def length_of(value: Any) -> int | _NoLength:
    return len(value) if isinstance(value, str | list | tuple | Mapping | set | frozenset) else NO_LENGTH


def contains_item(item: Any, container: Any) -> bool | None:
    """Searches a container, comparing strictly. None when it is not searchable."""
    if isinstance(container, list | tuple | set | frozenset):
        return any(equals_strictly(item, element) for element in container)
    try:
        return item in container
    except TypeError:
        return None


def compare_order(symbol: str, left: Any, right: Any, *, expression: str) -> bool:
    if left is None or right is None:
        return False
    try:
        return bool(ORDERINGS[symbol](left, right))
    except TypeError:
        kinds = f"{type(left).__name__} {symbol} {type(right).__name__}"
        log.info("condition_type_mismatch", extra={"condition": expression, "types": kinds})
        return False
