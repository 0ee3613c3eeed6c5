"""Implied matches: a transition on an answer that has `to` and no `match` fires only if the answer is its `to`."""

import reprlib
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from workflows.context.answer_match import AnswerMatch
from workflows.context.observers.tool_response import ToolResponse
from workflows.context.observers.ui_response import UiResponse
from workflows.context.observing import UNSET, Transition, Trigger, Unset
from workflows.context.value_types import ValueType, value_key
from workflows.package.findings import Findings

_WAYS = "match: {equals: …}, {in: [...]} or {any: true}"


def with_implied_match(trigger: Trigger, to: Any, declared: ValueType) -> Trigger:
    """Without `to` the answer itself becomes the value, so that any answer fires."""
    if not isinstance(trigger, UiResponse | ToolResponse) or isinstance(to, Unset):
        return trigger
    if trigger.match is not None or trigger.response_key is None:
        return trigger
    return replace(trigger, match=AnswerMatch((to,), declared, takes_forms=True))


def report_missing_match(findings: Findings, file: str, place: str, trigger: Trigger, to: Any) -> None:
    if not isinstance(trigger, UiResponse | ToolResponse):
        return
    if trigger.match is not None and trigger.match.is_implied:
        message = (
            f"is missing: it fires only if {trigger.response_key} is {reprlib.repr(to)}, its `to`, though a form's data"
            f" may fire it too; say which answers do with {_WAYS}"
        )
    elif trigger.match is None and trigger.response_key is None and isinstance(trigger, UiResponse):
        message = f"is missing, and so is response_key: any answer fires it, a no too; add response_key, and {_WAYS}"
    else:
        return
    findings.add("warning", "needs_match", file, f"{place}.match", message)


def only_one_takes_forms(transitions: Sequence[Transition]) -> tuple[Transition, ...]:
    """A mapping or a list says nothing about which of several transitions it is meant for: then it fires none."""
    answers = [each for each in transitions if isinstance(each.trigger, UiResponse | ToolResponse)]
    of_key = Counter(map(_key, answers))
    of_state = Counter((_key(each), value_key(each.from_)) for each in answers)

    def is_alone(transition: Transition) -> bool:
        key = _key(transition)
        if isinstance(transition.from_, Unset):  # fires from every state
            return of_key[key] == 1
        return of_state[key, value_key(transition.from_)] == 1 and of_state[key, value_key(UNSET)] == 0

    return tuple(each if is_alone(each) else _without_forms(each) for each in transitions)


def _key(transition: Transition) -> Hashable:
    return getattr(transition.trigger, "tool", None), getattr(transition.trigger, "response_key", None)


def _without_forms(transition: Transition) -> Transition:
    trigger = transition.trigger
    if not isinstance(trigger, UiResponse | ToolResponse) or trigger.match is None or not trigger.match.takes_forms:
        return transition
    return replace(transition, trigger=replace(trigger, match=replace(trigger.match, takes_forms=False)))
