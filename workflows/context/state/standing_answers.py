"""Standing answers: what a trigger answers in advance for people, and for which calls of a tool.

Under the name of a tool stands either one mapping, which answers every call, or a list of `{when, answer}`, of which
the first whose condition holds answers. A condition that cannot be evaluated does not hold: the call asks a person.
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

    `names` are tried in order: what the tool asks with, then the function that asks. All conditions of a call share
    the steps that any event has for free, some milliseconds: a large context buys no more of them.
    """
    event = {"arguments": arguments, "payload": payload, "context": dict(context)}
    effort = StepBudget(None)
    for name in dict.fromkeys(names):
        for position, (condition, answer) in enumerate(_conditional_answers(responses.get(name))):
            if condition is _ALWAYS or _condition_holds(condition, event, effort, tool=name, position=position):
                return answer
    return None


def _conditional_answers(raw: Any) -> Iterable[tuple[Any, Mapping[str, Any]]]:
    """Each condition with its answer. `_ALWAYS` is the condition of an answer without one; null is none."""
    if isinstance(raw, Mapping):
        return [(_ALWAYS, raw)]
    entries = raw if isinstance(raw, list | tuple) else ()
    return [
        (each.get("when", _ALWAYS), each["answer"])
        for each in entries
        if isinstance(each, Mapping) and isinstance(each.get("answer"), Mapping)
    ]


def _condition_holds(condition: Any, event: Mapping[str, Any], budget: StepBudget, *, tool: str, position: int) -> bool:
    try:
        value = compile_bounded(condition)(event, budget)
        if value is not None:
            return is_truthy(value)
        level, reason = logging.INFO, "yields null"
    except Exception as error:  # noqa: BLE001 -- a context holds any object of a tool, and any may refuse to be read
        level, reason = logging.WARNING, type(error).__name__  # the error's text repeats values of the arguments
    fields = {"run_id": event["context"].get("run_id"), "tool": tool, "position": position, "reason": reason}
    log.log(level, "standing_answer_not_evaluated", extra=fields)
    return False
