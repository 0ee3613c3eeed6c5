"""Payloads: `=expr` and `when` over an event, by JMESPath, which cannot execute anything, nor go on for ever."""

from collections.abc import Mapping
from typing import Any

from jmespath.exceptions import JMESPathError

from workflows.context.bounded_expression import Effort, TooMuchWorkError, compile_bounded
from workflows.context.quick_expression import holds_true


class PayloadError(ValueError):
    """An expression that this event does not satisfy; the text names the expression."""


def evaluate(expression: str, event: Any, effort: Effort | None = None) -> Any:
    """`effort`: what several expressions may cost together."""
    try:
        return compile_bounded(expression)(event, effort or Effort(event))
    # The library lets through what Python says about mixed types, a zero step or an infinite number.
    except (JMESPathError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise PayloadError(f"expression {expression!r}: {str(error).partition(chr(10))[0]}") from None


def holds(expression: str | None, event: Any, effort: Effort | None = None) -> bool:
    """Truth as JMESPath has it: false, null, and empty text, lists and objects are false."""
    if expression is None:
        return True
    return holds_true(evaluate(expression, event, effort))


def resolve(mapped: Any, event: Any, effort: Effort | None = None) -> Any:
    """A literal as it is; a string that begins with `=` as what it selects from the event."""
    return _resolved(mapped, event, effort or Effort(event))


def _resolved(mapped: Any, event: Any, effort: Effort) -> Any:
    if isinstance(mapped, str):
        return _weighed(mapped[1:], event, effort) if mapped.startswith("=") else mapped
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


def resolve_text(mapped: Any, event: Any, effort: Effort | None = None) -> str | None:
    """For names (app, user, message): text stays, numbers become text, structures are refused."""
    value = resolve(mapped, event, effort)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise PayloadError(f"{mapped!r} selects {type(value).__name__}, where text is needed")
