"""Reasons as text: why an event started no run, and why a trigger is inactive."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ops.presenters.times import format_utc

_NOT_COMPUTED_TEXT = "the trigger's expressions failed on this event"
_REASON_TEXTS = {
    "apps_unreadable": "the collection of its apps could not be read",
    "buffer_full": "one run was waiting behind the running one already",
    "cycle": "the ended run was itself started by this trigger; a chain must not form a cycle",
    "duplicate": "the event had started a run already",
    "event_too_large": "the event is larger than MongoDB can send",
    "gone": "the ended run was deleted before its end was processed",
    "invalid_body": "the body could not be parsed",
    "late": "the time was missed by more than misfire.grace, and misfire.policy is skip",
    "loop_guard": "this document changed too often",
    "no_apps": "the trigger had no app",
    "no_workflow": "no package here has the trigger's workflow",
    "not_computed": _NOT_COMPUTED_TEXT,
    "not_mapped": _NOT_COMPUTED_TEXT,
    "not_storable": "the event's data cannot be stored",
    "over_max": "more times were missed than misfire.max allows",
    "overlap": "the previous run was not finished",
    "paused": "the trigger was paused",
    "rate": "calls exceeded the trigger's rate",
    "shadowed": "the package has a trigger of the same name, which takes precedence",
    "superseded": "a later time was due as well, and misfire.policy is latest",
    "too_deep": "the chain of runs is too long",
    "unmappable": _NOT_COMPUTED_TEXT,
    "unusable_app": "the app's name is not usable",
    "when": "its `when` was not true",
}


def describe_reason(note: Mapping[str, Any]) -> str:
    """Add app, time and event as far as the note has them; a repeated reason has a time span."""
    reason, is_single = str(note.get("reason", "unknown")), note.get("times", 1) == 1
    details = [
        _labelled_text("app", note.get("app_id")),
        _labelled_text("of", note.get("nominal_at")) if is_single else _span_text(note),
        _labelled_text("event" if is_single else "last event", note.get("event_id")),
    ]
    detail = f" ({note['detail']})" if note.get("detail") else ""
    text = f"{_REASON_TEXTS.get(reason, reason.replace('_', ' '))}{detail}"
    return f"{reason}{'' if is_single else _count_text(note)}: {', '.join(filter(None, [text, *details]))}"


def inactive_reason(trigger: Mapping[str, Any]) -> str:
    """Name the environment: a secret that this command lacks may be set for the gateway."""
    reason = trigger["inactive"] or ""
    return environment_problem(reason) if reason and trigger["inactive_here"] else reason


def environment_problem(problem: str) -> str:
    return f"in this command's environment: {problem}"


def _count_text(note: Mapping[str, Any]) -> str:
    return f" ×{note['times']:,}{'' if note.get('exact', True) else ' or more'}"


def _span_text(note: Mapping[str, Any]) -> str:
    """Use the schedule's own times if the note has them, else the times of the notes."""
    first, last = note.get("nominal_at", note.get("first_at")), note.get("until", note.get("at"))
    return "" if first in (None, last) else f"from {format_utc(first)} to {format_utc(last)}"


def _labelled_text(word: str, value: Any) -> str:
    if value is None or value == "":
        return ""
    return f"{word} {format_utc(value) if isinstance(value, datetime) else value}"
