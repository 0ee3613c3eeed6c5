"""Reads the transitions of state: what a variable waits for, and what it becomes."""

from collections.abc import Iterator, Mapping
from typing import Any

from workflows.context.fitting import MisfitError, fit
from workflows.context.observers.registry import trigger_types
from workflows.context.observing import UNSET, Transition, Trigger, captured_group
from workflows.context.value_types import ValueType
from workflows.package.reading.implied_matches import only_one_takes_forms, report_missing_match, with_implied_match
from workflows.package.reading.section import Section

_NAMES_AGENTS = "handoff"  # whose own `from` and `to` are those of the hand-off


def read_transitions(source: Section, declared: ValueType) -> tuple[Transition, ...]:
    """`triggers: [..]`, `transitions: [{from, to, trigger}]` and `trigger: {..}`, all that are there."""
    return only_one_takes_forms(tuple(_transitions(source, declared)))


def _transitions(source: Section, declared: ValueType) -> Iterator[Transition]:
    for index, raw in enumerate(source.sequence("triggers")):
        yield from _flat(_part(source, raw, f"triggers[{index}]"), declared)
    single = source.get("trigger")
    if single is not None:
        yield from _flat(_part(source, _as_trigger(single), "trigger"), declared)
    for index, raw in enumerate(source.sequence("transitions")):
        yield from _guarded(_part(source, raw, f"transitions[{index}]"), declared)


def _part(source: Section, raw: Any, field: str) -> Section | None:
    """None for what is no mapping, which is all there is to say of it."""
    section = source.child(raw, field)
    return section if isinstance(raw, Mapping) else None


def _flat(section: Section | None, declared: ValueType) -> Iterator[Transition]:
    """A trigger that says itself what the variable becomes."""
    if section is None:
        return
    if section.body.get("type") == _NAMES_AGENTS:
        to, from_ = _given(section, "value"), UNSET
    else:
        to, from_ = _given(section, "to", "value"), _given(section, "from")
    trigger = _trigger(section)
    section.report_rest()
    if trigger is not None:
        yield _transition(section, trigger, to, from_, declared, section.path)


def _guarded(section: Section | None, declared: ValueType) -> Iterator[Transition]:
    if section is None:
        return
    if section.body.get("trigger") is None and section.body.get("type") is not None:
        yield from _flat(section, declared)
        return
    to, from_ = _given(section, "to"), _given(section, "from")
    raw = section.get("trigger")
    section.get("description")
    section.report_rest()
    if raw is None:
        section.warning("no_trigger", "trigger", "is missing, so nothing fires this; add one, or let a tool write")
        return
    trigger_section = _part(section, _as_trigger(raw), "trigger")
    if trigger_section is None:
        return
    trigger = _trigger(trigger_section)
    trigger_section.report_rest()
    if trigger is not None:
        yield _transition(section, trigger, to, from_, declared, trigger_section.path)


def _as_trigger(raw: Any) -> Any:
    return {"type": raw} if isinstance(raw, str) else raw


def _given(section: Section, *names: str) -> Any:
    """null is a value here: a variable may go back to it."""
    section.get(*names)
    return next((section.body[name] for name in names if name in section.body), UNSET)


def _trigger(section: Section) -> Trigger | None:
    kind = section.required_text("type")
    section.get("description")
    read = trigger_types().get(kind)
    if read is not None:
        return _whole(read(section))
    if kind:
        section.get(*section.body)  # what belongs to which trigger is not known
        section.error("unknown_trigger", "type", f"{kind} is not one of {', '.join(trigger_types())}")
    return None


def _whole(trigger: Trigger | None) -> Trigger | None:
    """Without the names it watches it would fire by accident."""
    names = (getattr(trigger, name, None) for name in ("agent", "tool"))
    return None if "" in names else trigger


def _transition(
    section: Section, trigger: Trigger, to: Any, from_: Any, declared: ValueType, trigger_place: str
) -> Transition:
    captured = captured_group(to)
    groups: int = getattr(trigger, "groups", 0)
    if captured is not None and captured > groups:
        message = f"names group {captured}, and the trigger captures {groups}; write a regex with that many ( )"
        section.error("wrong_value", "to", message)
        to = UNSET
    if captured is None:
        to = _typed(section, "to", to, declared)
        trigger = with_implied_match(trigger, to, declared)
        report_missing_match(section.findings, section.file, trigger_place, trigger, to)
    return Transition(
        trigger,
        to,
        _typed(section, "from", from_, declared),
        place=section.path,
        trigger_place=trigger_place,
    )


def _typed(section: Section, field: str, value: Any, declared: ValueType) -> Any:
    if value is UNSET:
        return UNSET
    try:
        return fit(value, declared)
    except MisfitError:
        section.warning("wrong_type_of_value", field, f"is no {declared}, which the variable is declared as")
        return value
