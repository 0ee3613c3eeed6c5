"""Reasons in words: why something that happened started no run, and why nothing would."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ops.cli.runs.lines import clock

_NOT_COMPUTED = "the trigger's expressions cannot be computed from it"
_WORDS = {
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
    "not_computed": _NOT_COMPUTED,
    "not_mapped": _NOT_COMPUTED,
    "not_storable": "its data cannot be kept",
    "over_max": "more times were missed than misfire.max makes up for",
    "overlap": "the run before it was not finished",
    "paused": "the trigger was paused",
    "rate": "calls came faster than its rate",
    "shadowed": "the package has a trigger of the same name, which goes first",
    "superseded": "a later time was due too, and the policy for misfires is latest",
    "too_deep": "the chain of runs is too long",
    "unmappable": _NOT_COMPUTED,
    "unusable_app": "what names the app is no usable name",
    "when": "its `when` was not true",
}


def reason_in_words(note: Mapping[str, Any]) -> str:
    """With whom and what it was about, as far as its kind has said; of several in a row from when to when."""
    reason, is_one = str(note.get("reason", "unknown")), note.get("times", 1) == 1
    when = _named("of", note.get("nominal_at")) if is_one else _span(note)
    about = [_named("app", note.get("app_id")), when, _named("event" if is_one else "last event", note.get("event_id"))]
    detail = f" ({note['detail']})" if note.get("detail") else ""
    words = f"{_WORDS.get(reason, reason.replace('_', ' '))}{detail}"
    return f"{reason}{'' if is_one else _times(note)}: {', '.join(filter(None, [words, *about]))}"


def why_inactive(trigger: Mapping[str, Any]) -> str:
    """What a command finds missing may be there for the gateway."""
    why = trigger["inactive"] or ""
    return in_this_environment(why) if why and trigger["inactive_here"] else why


def in_this_environment(problem: str) -> str:
    return f"in this command's environment: {problem}"


def _times(note: Mapping[str, Any]) -> str:
    return f" ×{note['times']:,}{'' if note.get('exact', True) else ' or more'}"


def _span(note: Mapping[str, Any]) -> str:
    """Of the times of a schedule where it names them; else of when it was noted."""
    first, last = note.get("nominal_at", note.get("first_at")), note.get("until", note.get("at"))
    return "" if first in (None, last) else f"from {clock(first)} to {clock(last)}"


def _named(word: str, value: Any) -> str:
    if value is None or value == "":
        return ""
    return f"{word} {clock(value) if isinstance(value, datetime) else value}"
