"""The reader of state transitions: the awaited event and the new value."""

from collections.abc import Iterator, Mapping
from typing import Any

from workflows.context.observers.registry import trigger_types
from workflows.context.state.state_transitions import UNSET, StateTrigger, Transition, captured_group
from workflows.context.values.type_coercion import MisfitError, coerce
from workflows.context.values.value_types import ValueType
from workflows.package.readers.section import Section
from workflows.package.readers.variables.implied_matches import (
    add_implied_match,
    report_missing_match,
    restrict_form_matches,
)

_HANDOFF_TYPE = "handoff"  # its `from` and `to` are speakers, not values


def read_transitions(source: Section, declared_type: ValueType) -> tuple[Transition, ...]:
    """Reads `triggers`, `trigger` and `transitions`, in this order."""
    return restrict_form_matches(tuple(_iter_transitions(source, declared_type)))


def _iter_transitions(source: Section, declared_type: ValueType) -> Iterator[Transition]:
    for index, raw in enumerate(source.sequence("triggers")):
        yield from _read_flat(_child_mapping(source, raw, f"triggers[{index}]"), declared_type)
    single = source.get("trigger")
    if single is not None:
        yield from _read_flat(_child_mapping(source, _to_trigger_mapping(single), "trigger"), declared_type)
    for index, raw in enumerate(source.sequence("transitions")):
        yield from _read_guarded(_child_mapping(source, raw, f"transitions[{index}]"), declared_type)


def _child_mapping(source: Section, raw: Any, field: str) -> Section | None:
    """Returns the section of a mapping; None for anything else, which is reported."""
    section = source.child(raw, field)
    return section if isinstance(raw, Mapping) else None


def _read_flat(section: Section | None, declared_type: ValueType) -> Iterator[Transition]:
    """Reads a trigger with the new value beside its own fields."""
    if section is None:
        return
    if section.body.get("type") == _HANDOFF_TYPE:
        to, from_ = _get_value(section, "value"), UNSET
    else:
        to, from_ = _get_value(section, "to", "value"), _get_value(section, "from")
    trigger = _read_trigger(section)
    section.report_unread()
    if trigger is not None:
        yield _make_transition(section, trigger, to, from_, declared_type, section.path)


def _read_guarded(section: Section | None, declared_type: ValueType) -> Iterator[Transition]:
    if section is None:
        return
    if section.body.get("trigger") is None and section.body.get("type") is not None:
        yield from _read_flat(section, declared_type)
        return
    to, from_ = _get_value(section, "to"), _get_value(section, "from")
    raw = section.get("trigger")
    section.get("description")
    section.report_unread()
    if raw is None:
        section.warning(
            "no_trigger",
            "trigger",
            "is missing, so this transition never fires; add one, or set the variable in a tool",
        )
        return
    trigger_section = _child_mapping(section, _to_trigger_mapping(raw), "trigger")
    if trigger_section is None:
        return
    trigger = _read_trigger(trigger_section)
    trigger_section.report_unread()
    if trigger is not None:
        yield _make_transition(section, trigger, to, from_, declared_type, trigger_section.path)


def _to_trigger_mapping(raw: Any) -> Any:
    return {"type": raw} if isinstance(raw, str) else raw


def _get_value(section: Section, *names: str) -> Any:
    """Returns the value of a field, UNSET if it is absent.

    null is a value: a variable may return to it.
    """
    section.get(*names)
    return next((section.body[name] for name in names if name in section.body), UNSET)


def _read_trigger(section: Section) -> StateTrigger | None:
    kind = section.required_text("type")
    section.get("description")
    reader = trigger_types().get(kind)
    if reader is not None:
        return _require_names(reader(section))
    if kind:
        section.get(*section.body)  # marked as read: the fields of an unknown trigger are unknown
        section.error("unknown_trigger", "type", f"{kind} is not one of {', '.join(trigger_types())}")
    return None


def _require_names(trigger: StateTrigger | None) -> StateTrigger | None:
    """Drops a trigger without a required name: it would fire on any event."""
    names = (getattr(trigger, name, None) for name in ("agent", "tool"))
    return None if "" in names else trigger


def _make_transition(
    section: Section, trigger: StateTrigger, to: Any, from_: Any, declared_type: ValueType, trigger_place: str
) -> Transition:
    captured = captured_group(to)
    groups: int = getattr(trigger, "groups", 0)
    if captured is not None and captured > groups:
        message = f"names group {captured}, but the trigger has {groups}; write a regex with that many groups ( )"
        section.error("wrong_value", "to", message)
        to = UNSET
    if captured is None:
        to = _fit_value(section, "to", to, declared_type)
        trigger = add_implied_match(trigger, to, declared_type)
        report_missing_match(section.findings, section.file, trigger_place, trigger, to)
    return Transition(
        trigger,
        to,
        _fit_value(section, "from", from_, declared_type),
        place=section.path,
        trigger_place=trigger_place,
    )


def _fit_value(section: Section, field: str, value: Any, declared_type: ValueType) -> Any:
    if value is UNSET:
        return UNSET
    try:
        return coerce(value, declared_type)
    except MisfitError:
        section.warning("wrong_type_of_value", field, f"is not of type {declared_type}, which the variable declares")
        return value
