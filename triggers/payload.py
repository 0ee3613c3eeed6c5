"""Payloads: `=expr` and `when` over an event, by JMESPath, which cannot execute anything, nor go on for ever."""

from collections.abc import Mapping
from typing import Any

from jmespath.exceptions import JMESPathError

from workflows.context.bounded_expression import StepBudget, TooMuchWorkError, compile_bounded
from workflows.context.quick_expression import is_truthy


class ExpressionError(ValueError):
    """An expression that this event does not satisfy; the text names the expression."""


def evaluate(expression: str, event: Any, effort: StepBudget | None = None) -> Any:
    """`effort`: what several expressions may cost together."""
    try:
        return compile_bounded(expression)(event, effort or StepBudget(event))
    # The library lets through what Python says about mixed types, a zero step or an infinite number.
    except (JMESPathError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise ExpressionError(f"expression {expression!r}: {str(error).partition(chr(10))[0]}") from None


def is_condition_met(expression: str | None, event: Any, effort: StepBudget | None = None) -> bool:
    """Truth as JMESPath has it: false, null, and empty text, lists and objects are false."""
    if expression is None:
        return True
    return is_truthy(evaluate(expression, event, effort))


def resolve(template: Any, event: Any, effort: StepBudget | None = None) -> Any:
    """A literal as it is; a string that begins with `=` as what it selects from the event."""
    return _resolve_value(template, event, effort or StepBudget(event))


def _resolve_value(template: Any, event: Any, effort: StepBudget) -> Any:
    if isinstance(template, str):
        return _resolve_expression(template[1:], event, effort) if template.startswith("=") else template
    if isinstance(template, Mapping):
        return {key: _resolve_value(value, event, effort) for key, value in template.items()}
    if isinstance(template, list):
        return [_resolve_value(value, event, effort) for value in template]
    return template


def _resolve_expression(expression: str, event: Any, effort: StepBudget) -> Any:
    """What is selected many times is kept many times, though it is one value here."""
    value = evaluate(expression, event, effort)
    try:
        effort.spend_on_value(value)
    except TooMuchWorkError as error:
        raise ExpressionError(f"expression {expression!r}: {error}") from None
    return value


def resolve_text(template: Any, event: Any, effort: StepBudget | None = None) -> str | None:
    """For names (app, user, message): text stays, numbers become text, structures are refused."""
    value = resolve(template, event, effort)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise ExpressionError(f"{template!r} selects {type(value).__name__}, where text is needed")
