"""Reasons in words: why something that happened started no run."""

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
    """With whom and what it was about, as far as its kind has said."""
    reason = str(note.get("reason", "unknown"))
    about = [
        _named("app", note.get("app_id")),
        _named("of", note.get("nominal_at")),
        _named("until", note.get("until") if note.get("until") != note.get("nominal_at") else None),
        _named("event", note.get("event_id")),
        "" if note.get("count", 1) == 1 else f"{note['count']} times",
    ]
    detail = f" ({note['detail']})" if note.get("detail") else ""
    place = ", ".join(filter(None, about))
    return f"{reason}: {_WORDS.get(reason, reason.replace('_', ' '))}{detail}{', ' if place else ''}{place}"


def _named(word: str, value: Any) -> str:
    if value is None or value == "":
        return ""
    return f"{word} {clock(value) if isinstance(value, datetime) else value}"
