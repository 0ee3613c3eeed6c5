"""Payloads: `=expr` and `when` over an event, by JMESPath, which cannot execute anything, nor go on for ever."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

from triggers.bounded_expression import BoundedInterpreter, Effort, TooMuchWorkError


class PayloadError(ValueError):
    """An expression that this event does not satisfy; the text names the expression."""


@lru_cache(maxsize=4_096)  # of specs, so there are as many as authors wrote; the library's own drops half of its 128
def _compiled(expression: str) -> Callable[[Any, Effort], Any]:
    tree = jmespath.compile(expression).parsed
    names = _names(tree)
    if names is not None:
        return lambda event, _effort: _selected(names, event)
    return lambda event, effort: BoundedInterpreter(effort).visit(tree, event)


def _names(node: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Of an expression such as `data.id`, which most are: its names. For those the library's walk through the tree
    costs ten times the look itself."""
    if node["type"] == "field":
        return (node["value"],)
    if node["type"] != "subexpression":
        return None
    parts = [_names(child) for child in node["children"]]
    return None if None in parts else tuple(name for part in parts if part is not None for name in part)


def _selected(names: tuple[str, ...], event: Any) -> Any:
    """As the library has it: what has no such name, or no names at all, is null."""
    for name in names:
        if not isinstance(event, Mapping):
            return None
        event = event.get(name)
    return event


def evaluate(expression: str, event: Any, effort: Effort | None = None) -> Any:
    """`effort`: what several expressions may cost together."""
    try:
        return _compiled(expression)(event, effort or Effort(event))
    # The library lets through what Python says about mixed types, a zero step or an infinite number.
    except (JMESPathError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise PayloadError(f"expression {expression!r}: {str(error).partition(chr(10))[0]}") from None


def holds(expression: str | None, event: Any) -> bool:
    """Truth as JMESPath has it: false, null, and empty text, lists and objects are false."""
    if expression is None:
        return True
    value = evaluate(expression, event)
    return value is not None and value is not False and value not in ("", [], {})


def resolve(mapped: Any, event: Any) -> Any:
    """A literal as it is; a string that begins with `=` as what it selects from the event."""
    return _resolved(mapped, event, Effort(event))


def _resolved(mapped: Any, event: Any, effort: Effort) -> Any:
    if isinstance(mapped, str) and mapped.startswith("="):
        return _weighed(mapped[1:], event, effort)
    if isinstance(mapped, Mapping):
        return {key: _resolved(value, event, effort) for key, value in mapped.items()}
    if isinstance(mapped, list):
        return [_resolved(value, event, effort) for value in mapped]
    return mapped


def _weighed(expression: str, event: Any, effort: Effort) -> Any:
    """What is selected many times is kept many times, though it is one value here."""
    value = evaluate(expression, event, effort)
    try:
        effort.weigh(value)
    except TooMuchWorkError as error:
        raise PayloadError(f"expression {expression!r}: {error}") from None
    return value


def resolve_text(mapped: Any, event: Any) -> str | None:
    """For names (app, user, message): text stays, numbers become text, structures are refused."""
    value = resolve(mapped, event)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise PayloadError(f"{mapped!r} selects {type(value).__name__}, where text is needed")
