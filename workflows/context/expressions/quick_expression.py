"""Quick expressions: simple JMESPath compiled to Python functions.

They are paths, comparisons with a constant, and `&&`, `||` and `!` between them. Most triggers have no others, and the
library's walk through its tree costs ten times as much. Such an expression costs no more than its own length, so no
steps are counted.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jmespath.visitor import TreeInterpreter

QuickFunction = Callable[[Any], Any]

_SCALARS = (str, int, float, bool, type(None))
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = TreeInterpreter.COMPARATOR_FUNC
_TEXT_COMPARATORS: Mapping[str, Callable[[Any, Any], Any]] = {"eq": operator.eq, "ne": operator.ne}


class LazyEvent:
    """An event that is materialized on demand: most expressions need one name of it.

    It is no abstract class, since checking an instance against one would take longer than the lookup."""

    __slots__ = ()

    def select(self, path: Sequence[str]) -> Any:
        raise NotImplementedError

    def materialize(self) -> Any:
        raise NotImplementedError


def materialize_event(event: Any) -> Any:
    return event.materialize() if isinstance(event, LazyEvent) else event


def compile_quick(node: Mapping[str, Any]) -> QuickFunction | None:
    """Compiles a tree of the library; None for one that is not simple enough."""
    path, kind = _read_path(node), node["type"]
    if path is not None:
        return lambda event: _select_path(path, event)
    if _is_constant(node):
        return lambda _event: node["value"]
    if kind == "comparator":
        return _compile_comparison(node)
    if kind not in ("and_expression", "or_expression", "not_expression"):
        return None
    parts = [part for part in map(compile_quick, node["children"]) if part is not None]
    if len(parts) < len(node["children"]):
        return None
    return (
        _compile_negation(parts[0])
        if kind == "not_expression"
        else _compile_either(*parts, continue_if=kind == "and_expression")
    )


def is_truthy(value: Any) -> bool:
    """Evaluates truth as JMESPath does: false, null and empty values are false."""
    return value is not None and value is not False and value not in ("", [], {})


def _read_path(node: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Returns the names of a path such as `data.id`; None for another expression."""
    if node["type"] == "field":
        return (node["value"],)
    if node["type"] != "subexpression":
        return None
    parts = [_read_path(child) for child in node["children"]]
    return None if None in parts else tuple(name for part in parts if part is not None for name in part)


def _select_path(path: Sequence[str], event: Any) -> Any:
    """Follows a path as the library does: null for a missing name."""
    if isinstance(event, LazyEvent):
        return event.select(path)
    for name in path:
        if type(event) is not dict and not isinstance(event, Mapping):
            return None
        event = event.get(name)
    return event


def _compile_comparison(node: Mapping[str, Any]) -> QuickFunction | None:
    """Compiles a comparison with a constant.

    Two values of the event may both be as large as the event."""
    name = node["value"]
    left, right = (
        compile_quick(child) if _is_constant(child) or _read_path(child) else None for child in node["children"]
    )
    if left is None or right is None or not any(map(_is_constant, node["children"])):
        return None
    compare = _COMPARE[name]
    if name in ("eq", "ne"):
        # For numbers the library distinguishes `true` from 1; for text it gives Python's result, but slower.
        is_of_text = any(_is_constant(child) and isinstance(child["value"], str) for child in node["children"])
        compare = _TEXT_COMPARATORS[name] if is_of_text else compare
        return lambda event: compare(left(event), right(event))
    return lambda event: _compare_ordered(compare, left(event), right(event))


def _is_constant(node: Mapping[str, Any]) -> bool:
    return node["type"] == "literal" and isinstance(node["value"], _SCALARS)


def _compare_ordered(compare: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    return compare(left, right) if _has_order(left) and _has_order(right) else None


def _has_order(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _compile_negation(part: QuickFunction) -> QuickFunction:
    def evaluate(event: Any) -> bool:
        value = part(event)
        # Zero is true in JMESPath.
        return not value and not _is_zero(value)

    return evaluate


def _is_zero(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == 0


def _compile_either(first: QuickFunction, second: QuickFunction, *, continue_if: bool) -> QuickFunction:
    """Returns a function of `first`, and of `second` if the first does not decide."""

    def evaluate(event: Any) -> Any:
        value = first(event)
        return second(event) if is_truthy(value) is continue_if else value

    return evaluate
