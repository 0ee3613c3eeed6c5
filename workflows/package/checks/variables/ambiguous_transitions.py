"""Ambiguous transitions: one event sets a variable to two different values.

Both transitions start from the same state.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import combinations

from workflows.context.observers.handoff import HandoffTrigger
from workflows.context.observers.lifecycle import LifecycleTrigger
from workflows.context.observers.tool_call import ToolCallTrigger
from workflows.context.observers.tool_response import ToolResponseTrigger
from workflows.context.observers.ui_response import UiResponseTrigger
from workflows.context.state.answer_match import AnswerMatch
from workflows.context.state.state_transitions import StateTrigger, Transition, Unset
from workflows.context.values.value_types import is_same_value, value_key
from workflows.package.checks.file_places import variable_place, variables_file
from workflows.package.checks.message_parts import display
from workflows.package.findings import Findings
from workflows.package.normal_form.package_model import Package
from workflows.package.normal_form.variable_sources import StateSource

MAX_COMPARED_TRANSITIONS = 100  # per variable and tool; all pairs are compared
_ANY_ANSWER = AnswerMatch()


def check_ambiguous_transitions(package: Package, findings: Findings) -> None:
    file = variables_file(package)
    for name, variable in package.variables.items():
        if not isinstance(variable.source, StateSource):
            continue
        for first, second in _find_ambiguous(variable.source.transitions):
            message = (
                f"sets {name} to {_target(second)} on an event that also sets it to {_target(first)} from the"
                f" same state{_place_suffix(first)}; give them different match or from values, or remove one"
            )
            place = second.place or variable_place(package, name)
            findings.add("error", "ambiguous_transitions", file, place, message)
        for tool, transitions in _group_by_tool(variable.source.transitions).items():
            if len(transitions) > MAX_COMPARED_TRANSITIONS:
                message = f"has more than {MAX_COMPARED_TRANSITIONS} transitions on {tool}; only the first are compared"
                findings.add("warning", "not_compared", file, variable_place(package, name), message)


def _find_ambiguous(transitions: Sequence[Transition]) -> Iterator[tuple[Transition, Transition]]:
    """Yields each later transition once, with the first one that it collides with."""
    yield from _find_same_triggers(transitions)
    for group in _group_by_tool(transitions).values():
        reported: set[int] = set()
        for (_, first), (index, second) in combinations(enumerate(group[:MAX_COMPARED_TRANSITIONS]), 2):
            if index not in reported and _can_collide(first, second):
                reported.add(index)
                yield first, second


def _find_same_triggers(transitions: Sequence[Transition]) -> Iterator[tuple[Transition, Transition]]:
    """Yields pairs of transitions without answers that surely fire together.

    Their events are equal, or differ only in that one is for any agent. A missing `from` is not ambiguous here: authors
    write a toggle as `to: true` followed by `from: true, to: false`.
    """
    seen: dict[Hashable, dict[str | None, Transition]] = {}
    for transition in transitions:
        if isinstance(transition.trigger, UiResponseTrigger | ToolResponseTrigger):
            continue
        event, agent = _event_key(transition.trigger)
        earlier = seen.setdefault((event, value_key(transition.from_)), {})
        together = [other for name, other in earlier.items() if agent is None or name in (agent, None)]
        first = next((other for other in together if not is_same_value(other.to, transition.to)), None)
        if first is not None:
            yield first, transition
        earlier.setdefault(agent, transition)


def _event_key(trigger: StateTrigger) -> tuple[Hashable, str | None]:
    """Returns the event that the trigger waits for, and the agent if only one counts."""
    match trigger:
        case ToolCallTrigger(tool=tool, agent=agent):
            return (trigger.type, tool), agent
        case LifecycleTrigger(event=event, agent=agent):
            return (trigger.type, event), agent
        case HandoffTrigger(target=target, source=source):
            return (trigger.type, target), source
        case _:
            return repr(trigger), None


def _group_by_tool(transitions: Sequence[Transition]) -> Mapping[str, list[Transition]]:
    by_tool: dict[str, list[Transition]] = {}
    for transition in transitions:
        if isinstance(transition.trigger, UiResponseTrigger | ToolResponseTrigger):
            by_tool.setdefault(transition.trigger.tool, []).append(transition)
    return by_tool


def _can_collide(first: Transition, second: Transition) -> bool:
    trigger, other = first.trigger, second.trigger
    if not isinstance(trigger, UiResponseTrigger | ToolResponseTrigger) or not isinstance(
        other, UiResponseTrigger | ToolResponseTrigger
    ):
        return False
    starts_together = any(isinstance(transition.from_, Unset) for transition in (first, second)) or is_same_value(
        first.from_, second.from_
    )
    return starts_together and _can_share_event(trigger, other) and _has_different_targets(first, second)


def _can_share_event(
    first: UiResponseTrigger | ToolResponseTrigger, second: UiResponseTrigger | ToolResponseTrigger
) -> bool:
    """Returns whether one event can fire both.

    Different keys may belong to different answers, so they do not.
    """
    statuses = {
        trigger.status if isinstance(trigger, ToolResponseTrigger) else "success" for trigger in (first, second)
    }
    if statuses == {"success", "error"}:
        return False
    mine, others = first.match or _ANY_ANSWER, second.match or _ANY_ANSWER
    if first.response_key == second.response_key:
        return mine.overlaps(others)
    if first.response_key is None:
        return _can_contain(mine, second.response_key, others)
    return second.response_key is None and _can_contain(others, first.response_key, mine)


def _can_contain(whole_match: AnswerMatch, key: str | None, key_match: AnswerMatch) -> bool:
    """Returns whether an answer that fits `whole_match` can contain the key.

    The key's value must fit `key_match`.
    """
    if whole_match.values is None:
        return True
    return any(
        isinstance(value, Mapping) and key in value and key_match.matches(value[key]) for value in whole_match.values
    )


def _has_different_targets(first: Transition, second: Transition) -> bool:
    """Compares the new values.

    Without `to` the answer is the value; it may equal the other transition's match.
    """
    unset = [transition for transition in (first, second) if isinstance(transition.to, Unset)]
    if len(unset) != 1:
        keys = {getattr(transition.trigger, "response_key", None) for transition in (first, second)}
        return len(keys) > 1 if unset else not is_same_value(first.to, second.to)
    other = second if unset[0] is first else first
    match: AnswerMatch | None = getattr(other.trigger, "match", None)
    to = AnswerMatch((other.to,))
    return match is None or match.values is None or match.takes_forms or not all(map(to.matches, match.values))


def _target(transition: Transition) -> str:
    return "the answer" if isinstance(transition.to, Unset) else display(transition.to)


def _place_suffix(transition: Transition) -> str:
    return f" ({transition.place})" if transition.place else ""
