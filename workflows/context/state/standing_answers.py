"""Standing answers: a trigger's answers in advance, by tool and condition.

Under a tool's name stands either one mapping, which answers every call, or a list of `{when, answer}`, of which the
first whose condition holds answers. A condition that cannot be evaluated does not hold, so the call asks a person.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from workflows.context.expressions.bounded_expression import StepBudget, compile_bounded
from workflows.context.expressions.quick_expression import is_truthy

log = logging.getLogger(__name__)

CONDITION_ROOTS = ("arguments", "payload", "context")
_ALWAYS = object()


def find_standing_answer(
    responses: Mapping[str, Any],
    names: Iterable[str],
    *,
    arguments: Any,
    payload: Any,
    context: Mapping[str, Any],
) -> Mapping[str, Any] | None:
    """Returns the first answer whose condition holds, or None. Never raises.

    `names` are tried in order: the name that the tool asks with, then the function that asks. All conditions of a call
    share the steps that any event has for free, some milliseconds: a large context gives no more of them."""
    event = {"arguments": arguments, "payload": payload, "context": dict(context)}
    budget = StepBudget(None)
    for name in dict.fromkeys(names):
        for position, (condition, answer) in enumerate(_conditional_answers(responses.get(name))):
            if condition is _ALWAYS or _condition_holds(condition, event, budget, tool=name, position=position):
                return answer
    return None


def _conditional_answers(raw: Any) -> Iterable[tuple[Any, Mapping[str, Any]]]:
    """Returns conditions with answers.

    The condition of an answer without one is `_ALWAYS`; null never holds."""
    if isinstance(raw, Mapping):
        return [(_ALWAYS, raw)]
    entries = raw if isinstance(raw, list | tuple) else ()
    return [
        (entry.get("when", _ALWAYS), entry["answer"])
        for entry in entries
        if isinstance(entry, Mapping) and isinstance(entry.get("answer"), Mapping)
    ]


def _condition_holds(condition: Any, event: Mapping[str, Any], budget: StepBudget, *, tool: str, position: int) -> bool:
    try:
        value = compile_bounded(condition)(event, budget)
        if value is not None:
            return is_truthy(value)
        level, reason = logging.INFO, "yields null"
    except Exception as error:  # noqa: BLE001 -- a context may hold any object of a tool, and reading it may raise anything
        level, reason = logging.WARNING, type(error).__name__  # the error's text repeats values of the arguments
    fields = {"run_id": event["context"].get("run_id"), "tool": tool, "position": position, "reason": reason}
    log.log(level, "standing_answer_not_evaluated", extra=fields)
    return False
