"""Checks for ambiguous transitions: two of one variable that one event can fire from one state, to different ends."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import combinations

from workflows.context.answer_match import AnswerMatch
from workflows.context.observers.handoff import Handoff
from workflows.context.observers.lifecycle import Lifecycle
from workflows.context.observers.tool_call import ToolCall
from workflows.context.observers.tool_response import ToolResponse
from workflows.context.observers.ui_response import UiResponse
from workflows.context.observing import Transition, Trigger, Unset
from workflows.context.value_types import same, value_key
from workflows.package.checks.known import shown, variable_place, variables_file
from workflows.package.findings import Findings
from workflows.package.models import Package
from workflows.package.sources import StateSource

MAX_COMPARED = 100  # of one variable, for one tool: each is compared with each
_ANY = AnswerMatch()


def check_ambiguous_transitions(package: Package, findings: Findings) -> None:
    file = variables_file(package)
    for name, variable in package.variables.items():
        if not isinstance(variable.source, StateSource):
            continue
        for first, second in _ambiguous(variable.source.transitions):
            message = (
                f"leads {name} to {_target(second)} on an event that leads it to {_target(first)} as well, from the"
                f" same state{_at(first)}; tell the two apart by their match or their from, or remove one"
            )
            place = second.place or variable_place(package, name)
            findings.add("error", "ambiguous_transitions", file, place, message)
        for tool, transitions in _by_tool(variable.source.transitions).items():
            if len(transitions) > MAX_COMPARED:
                message = f"has more than {MAX_COMPARED} transitions on {tool}; only the first are compared"
                findings.add("warning", "not_compared", file, variable_place(package, name), message)


def _ambiguous(transitions: Sequence[Transition]) -> Iterator[tuple[Transition, Transition]]:
    """Each later one once, with the first that it collides with."""
    yield from _same_triggers(transitions)
    for each in _by_tool(transitions).values():
        found: set[int] = set()
        for (_, first), (index, second) in combinations(enumerate(each[:MAX_COMPARED]), 2):
            if index not in found and _collide(first, second):
                found.add(index)
                yield first, second


def _same_triggers(transitions: Sequence[Transition]) -> Iterator[tuple[Transition, Transition]]:
    """Of those that wait for no answer only what is written twice, or once for one agent and once for any, is sure to
    fire together. One without `from` is no ambiguity there: a toggle is written as `to: true`, and `from: true, to:
    false` after it."""
    seen: dict[Hashable, dict[str | None, Transition]] = {}
    for each in transitions:
        if isinstance(each.trigger, UiResponse | ToolResponse):
            continue
        event, agent = _event(each.trigger)
        earlier = seen.setdefault((event, value_key(each.from_)), {})
        together = [other for name, other in earlier.items() if agent is None or name in (agent, None)]
        first = next((other for other in together if not same(other.to, each.to)), None)
        if first is not None:
            yield first, each
        earlier.setdefault(agent, each)


def _event(trigger: Trigger) -> tuple[Hashable, str | None]:
    """The event that it waits for, and the agent, if only one counts."""
    match trigger:
        case ToolCall(tool=tool, agent=agent):
            return (trigger.type, tool), agent
        case Lifecycle(event=event, agent=agent):
            return (trigger.type, event), agent
        case Handoff(target=target, source=source):
            return (trigger.type, target), source
        case _:
            return repr(trigger), None


def _by_tool(transitions: Sequence[Transition]) -> Mapping[str, list[Transition]]:
    by_tool: dict[str, list[Transition]] = {}
    for each in transitions:
        if isinstance(each.trigger, UiResponse | ToolResponse):
            by_tool.setdefault(each.trigger.tool, []).append(each)
    return by_tool


def _collide(first: Transition, second: Transition) -> bool:
    one, other = first.trigger, second.trigger
    if not isinstance(one, UiResponse | ToolResponse) or not isinstance(other, UiResponse | ToolResponse):
        return False
    starts_together = any(isinstance(each.from_, Unset) for each in (first, second)) or same(first.from_, second.from_)
    return starts_together and _share_event(one, other) and _end_apart(first, second)


def _share_event(one: UiResponse | ToolResponse, other: UiResponse | ToolResponse) -> bool:
    """Two keys may be those of two kinds of answers, so that a package that is right would be refused."""
    statuses = {each.status if isinstance(each, ToolResponse) else "success" for each in (one, other)}
    if statuses == {"success", "error"}:
        return False
    mine, others = one.match or _ANY, other.match or _ANY
    if one.response_key == other.response_key:
        return mine.overlaps(others)
    if one.response_key is None:
        return _whole_holds(mine, other.response_key, others)
    return other.response_key is None and _whole_holds(others, one.response_key, mine)


def _whole_holds(whole: AnswerMatch, key: str | None, of_key: AnswerMatch) -> bool:
    """Whether an answer that fits `whole` can have a key whose value fits `of_key`."""
    if whole.values is None:
        return True
    return any(isinstance(each, Mapping) and key in each and of_key.fits(each[key]) for each in whole.values)


def _end_apart(first: Transition, second: Transition) -> bool:
    """Without `to` the answer becomes the value, which is what the other one leads to if it fires on nothing else."""
    free = [each for each in (first, second) if isinstance(each.to, Unset)]
    if len(free) != 1:
        keys = {getattr(each.trigger, "response_key", None) for each in (first, second)}
        return len(keys) > 1 if free else not same(first.to, second.to)
    led = second if free[0] is first else first
    match: AnswerMatch | None = getattr(led.trigger, "match", None)
    to = AnswerMatch((led.to,))
    return match is None or match.values is None or match.takes_forms or not all(map(to.fits, match.values))


def _target(transition: Transition) -> str:
    return "the answer" if isinstance(transition.to, Unset) else shown(transition.to)


def _at(transition: Transition) -> str:
    return f" ({transition.place})" if transition.place else ""
