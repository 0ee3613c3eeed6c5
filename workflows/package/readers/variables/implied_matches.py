"""Implied matches of transitions on an answer.

A transition with `to` and without `match` fires only if the answer is `to`.
"""

import reprlib
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from workflows.context.observers.tool_response import ToolResponseTrigger
from workflows.context.observers.ui_response import UiResponseTrigger
from workflows.context.state.answer_match import AnswerMatch
from workflows.context.state.state_transitions import UNSET, StateTrigger, Transition, Unset
from workflows.context.values.value_types import ValueType, value_key
from workflows.package.findings import Findings

_MATCH_FORMS = "match: {equals: …}, {in: [...]} or {any: true}"


def add_implied_match(trigger: StateTrigger, to: Any, declared_type: ValueType) -> StateTrigger:
    """Adds the implied match.

    Without `to` there is none: any answer fires and becomes the value.
    """
    if not isinstance(trigger, UiResponseTrigger | ToolResponseTrigger) or isinstance(to, Unset):
        return trigger
    if trigger.match is not None or trigger.response_key is None:
        return trigger
    return replace(trigger, match=AnswerMatch((to,), declared_type, takes_forms=True))


def report_missing_match(findings: Findings, file: str, place: str, trigger: StateTrigger, to: Any) -> None:
    if not isinstance(trigger, UiResponseTrigger | ToolResponseTrigger):
        return
    if trigger.match is not None and trigger.match.is_implied:
        message = (
            f"is missing: the transition fires only if {trigger.response_key} is {reprlib.repr(to)}, its `to`, but data"
            f" of a form may fire it too; write {_MATCH_FORMS}"
        )
    elif trigger.match is None and trigger.response_key is None and isinstance(trigger, UiResponseTrigger):
        message = (
            f"is missing, and so is response_key: any answer fires it, even a no; add response_key, and {_MATCH_FORMS}"
        )
    else:
        return
    findings.add("warning", "needs_match", file, f"{place}.match", message)


def restrict_form_matches(transitions: Sequence[Transition]) -> tuple[Transition, ...]:
    """Excludes mappings and lists from implied matches that share an answer.

    Several transitions wait for the same answer then.
    """
    answers = [
        transition
        for transition in transitions
        if isinstance(transition.trigger, UiResponseTrigger | ToolResponseTrigger)
    ]
    counts_by_key = Counter(map(_answer_key, answers))
    counts_by_state = Counter((_answer_key(answer), value_key(answer.from_)) for answer in answers)

    def is_alone(transition: Transition) -> bool:
        key = _answer_key(transition)
        if isinstance(transition.from_, Unset):  # fires from every state
            return counts_by_key[key] == 1
        return counts_by_state[key, value_key(transition.from_)] == 1 and counts_by_state[key, value_key(UNSET)] == 0

    return tuple(transition if is_alone(transition) else _exclude_forms(transition) for transition in transitions)


def _answer_key(transition: Transition) -> Hashable:
    return getattr(transition.trigger, "tool", None), getattr(transition.trigger, "response_key", None)


def _exclude_forms(transition: Transition) -> Transition:
    trigger = transition.trigger
    if (
        not isinstance(trigger, UiResponseTrigger | ToolResponseTrigger)
        or trigger.match is None
        or not trigger.match.takes_forms
    ):
        return transition
    return replace(transition, trigger=replace(trigger, match=replace(trigger.match, takes_forms=False)))
