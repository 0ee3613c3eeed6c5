"""Reasons in words: why something that happened started no run, and why nothing would."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ops.presenters.times import format_utc

_NOT_COMPUTED_TEXT = "the trigger's expressions cannot be computed from it"
_REASON_TEXTS = {
    "apps_unreadable": "the collection of its apps could not be read",
    "buffer_full": "one run waited behind the one at work already",
    "cycle": "the run that ended goes back to this trigger, and a chain must not go round",
    "duplicate": "had started a run already",
    "event_too_large": "the event is larger than MongoDB can send",
    "gone": "the run that ended was deleted before it was seen",
    "invalid_body": "the body could not be read",
    "late": "came after the grace for misfires, whose policy is skip",
    "loop_guard": "this document changed too often",
    "no_apps": "there was no app to run it for",
    "no_workflow": "no package here has its workflow",
    "not_computed": _NOT_COMPUTED_TEXT,
    "not_mapped": _NOT_COMPUTED_TEXT,
    "not_storable": "its data cannot be kept",
    "over_max": "more times were missed than misfire.max makes up for",
    "overlap": "the run before it was not finished",
    "paused": "the trigger was paused",
    "rate": "calls came faster than its rate",
    "shadowed": "the package has a trigger of the same name, which goes first",
    "superseded": "a later time was due too, and the policy for misfires is latest",
    "too_deep": "the chain of runs is too long",
    "unmappable": _NOT_COMPUTED_TEXT,
    "unusable_app": "what names the app is no usable name",
    "when": "its `when` was not true",
}


def describe_reason(note: Mapping[str, Any]) -> str:
    """With whom and what it was about, as far as its kind has said; of several in a row from when to when."""
    reason, is_one = str(note.get("reason", "unknown")), note.get("times", 1) == 1
    when = _labelled_text("of", note.get("nominal_at")) if is_one else _span_text(note)
    about = [
        _labelled_text("app", note.get("app_id")),
        when,
        _labelled_text("event" if is_one else "last event", note.get("event_id")),
    ]
    detail = f" ({note['detail']})" if note.get("detail") else ""
    words = f"{_REASON_TEXTS.get(reason, reason.replace('_', ' '))}{detail}"
    return f"{reason}{'' if is_one else _count_text(note)}: {', '.join(filter(None, [words, *about]))}"


def inactive_reason(trigger: Mapping[str, Any]) -> str:
    """What a command finds missing may be there for the gateway."""
    why = trigger["inactive"] or ""
    return environment_problem(why) if why and trigger["inactive_here"] else why


def environment_problem(problem: str) -> str:
    return f"in this command's environment: {problem}"


def _count_text(note: Mapping[str, Any]) -> str:
    return f" ×{note['times']:,}{'' if note.get('exact', True) else ' or more'}"


def _span_text(note: Mapping[str, Any]) -> str:
    """Of the times of a schedule where it names them; else of when it was noted."""
    first, last = note.get("nominal_at", note.get("first_at")), note.get("until", note.get("at"))
    return "" if first in (None, last) else f"from {format_utc(first)} to {format_utc(last)}"


def _labelled_text(word: str, value: Any) -> str:
    if value is None or value == "":
        return ""
    return f"{word} {format_utc(value) if isinstance(value, datetime) else value}"
