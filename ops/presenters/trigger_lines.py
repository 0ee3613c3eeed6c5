"""A trigger as lines: how it stands, what comes next, what came of it so far and why, and what to do about it."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from ops.presenters.printable_text import to_printable
from ops.presenters.skip_reasons import describe_reason, environment_problem, inactive_reason
from ops.presenters.times import format_duration, format_utc
from ops.presenters.turn_lines import BAD, DIM, GOOD, Line, format_value

WARNING = "yellow"
MAX_APPS = 10
MAX_NOTES = 10
TriggerFields = Mapping[str, Any]
_EPOCH = datetime.fromtimestamp(0, UTC)

_LABELS = {
    "nothing_next": "but idle",
    "deduplicated_by": "dedupe by",
    "body_kinds": "bodies",
    "last_nominal_at": "last time",
    "position_saved_at": "position",
    "newest_event_at": "newest event",
    "oplog_window_s": "oplog spans",
    "late_s": "late by",
}

# Of the entry as it is written: in the first lines, or among what comes next.
_SHOWN_ELSEWHERE = frozenset(
    {
        *("name", "type", "description", "apps", "app_id", "cron", "every", "at", "timezone"),
        *("inputs", "verify", "accept", "rate", "dedupe", "title", "ui_responses"),
    }
)
_STATES = {"active": GOOD, "paused": WARNING, "inactive": BAD}


def trigger_lines(trigger: TriggerFields) -> Iterator[Line]:
    yield "bold", to_printable(f"{trigger['workflow']}/{trigger['name']}  {trigger['type']} for {_apps_text(trigger)}")
    yield from _state_lines(trigger)
    if trigger["description"]:
        yield "", to_printable(f"  {trigger['description']}")
    for name, value in trigger_facts(trigger):
        yield "", to_printable(f"  {name:<12} {value}")
    yield from _outlook_lines(trigger["outlook"], is_paused=trigger["state"] == "paused")
    yield from _note_lines(trigger["notes"])
    for step in next_steps(trigger):
        yield "", to_printable(f"→ {step}")


def _apps_text(trigger: TriggerFields) -> str:
    if trigger["apps_from"] is not None:
        return f"the apps of the {trigger['apps_from']}"
    apps = trigger["apps"]
    more = f" and {len(apps) - MAX_APPS} more" if len(apps) > MAX_APPS else ""
    return (", ".join(apps[:MAX_APPS]) + more) or "no app"


def _state_lines(trigger: TriggerFields) -> Iterator[Line]:
    state = trigger["state"]
    why = inactive_reason(trigger)
    yield _STATES[state], to_printable(f"{state}: {why}" if why and state == "inactive" else state)
    if trigger["paused"]:
        yield WARNING, to_printable(f"  paused {_pause_text(trigger['paused'])}")
    if why and state == "paused":
        yield BAD, to_printable(f"  and inactive: {why}")
    for app_id, pause in list(trigger["paused_apps"].items())[:MAX_APPS]:
        yield WARNING, to_printable(f"  paused for {app_id} {_pause_text(pause)}")


def _pause_text(pause: TriggerFields) -> str:
    note = f": {pause['note']}" if pause["note"] else ""
    return f"by {pause['by']}, {format_utc(pause['at'])}{note}"


def trigger_facts(trigger: TriggerFields) -> Iterator[tuple[str, str]]:
    if trigger["origin"] == "package":
        yield "from", f"the package {trigger['workflow']}"
    else:
        since = f", {format_utc(trigger['created_at'])}" if trigger["created_at"] else ""
        yield "made", f"at run time{since}, revision {trigger['revision']}"
    if "answers_approved_by" in trigger:
        yield (
            "answers",
            f"in advance, approved by {trigger['answers_approved_by'] or 'no key that may approve: edit it'}",
        )
    if trigger["last_fired_at"]:
        ago = format_duration(trigger["last_fired_at"], datetime.now(UTC))
        yield "last fired", f"{format_utc(trigger['last_fired_at'])}, {ago} ago"
    counts = trigger["counts"]
    if counts:
        yield "so far", ", ".join(f"{count} {_count_label(name, count)}" for name, count in sorted(counts.items()))
    yield "source", trigger["source"]
    for name, value in (trigger.get("spec") or {}).items():
        if name not in _SHOWN_ELSEWHERE and value not in (None, [], {}):
            yield name.replace("_", " "), format_value(value)
    yield from _answer_facts((trigger.get("spec") or {}).get("ui_responses") or {})


def _answer_facts(answers: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What it answers for people, and for which calls: one line for each answer."""
    for tool, written in answers.items():
        for each in written if isinstance(written, list) else [{"answer": written}]:
            condition = f" when {each['when']}" if "when" in each else ""
            yield "answers", f"{tool}: {format_value(each['answer'])}{condition}"


def _count_label(name: str, count: int) -> str:
    kind, _, reason = name.partition(".")
    if reason:
        return f"{kind} ({reason.replace('_', ' ')})"
    return "duplicates" if kind == "duplicate" and count != 1 else kind


def _outlook_lines(outlook: TriggerFields, *, is_paused: bool) -> Iterator[Line]:
    if "warning" in outlook:
        yield WARNING, to_printable(f"  ! {outlook['warning']}")
    for label, lines in outlook_facts(outlook, is_paused=is_paused):
        for index, line in enumerate(lines):
            yield "", to_printable(f"  {'' if index else label:<12} {line}")


def outlook_facts(outlook: TriggerFields, *, is_paused: bool) -> Iterator[tuple[str, Sequence[str]]]:
    """Each kind tells in its own words: a list is one line each, what is not known is left out."""
    for name, value in outlook.items():
        if name == "warning":
            continue
        label = "would run at" if is_paused and name == "next" else _LABELS.get(name, name.replace("_", " "))
        if lines := _value_lines(_seconds_text(value) if name.endswith("_s") else value):
            yield label, lines


def _seconds_text(value: float | None) -> str | None:
    return None if value is None else format_duration(_EPOCH, _EPOCH + timedelta(seconds=value))


def _value_lines(value: Any) -> Sequence[str]:
    if isinstance(value, Mapping):
        return [f"{name}  {_value_text(each)}" for name, each in value.items()]
    if isinstance(value, list | tuple):
        plain = all(isinstance(each, str | int | float) for each in value)
        return [", ".join(map(_value_text, value))] if plain and value else [_value_text(each) for each in value]
    return [] if value in (None, "") else [_value_text(value)]


def _value_text(value: Any) -> str:
    if isinstance(value, datetime):
        return format_utc(value.astimezone(UTC)) if value.tzinfo else format_utc(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping) and set(value) == {"utc", "local"}:
        return _utc_and_local(value["utc"], str(value["local"]))
    if isinstance(value, Mapping) and set(value) == {"secret", "problem"}:
        return f"{value['secret']}  {environment_problem(value['problem'])}" if value["problem"] else value["secret"]
    if isinstance(value, Mapping):
        said = {name: each for name, each in value.items() if each not in (None, "")}
        return ", ".join(f"{name.replace('_', ' ')} {_value_text(each)}" for name, each in said.items())
    return format_value(value)


def _utc_and_local(utc: datetime, local: str) -> str:
    """The zone's own time where it is another one."""
    return format_utc(utc) if local.endswith("+00:00") else f"{format_utc(utc)}  ({local.replace('T', ' ')})"


def _note_lines(notes: Sequence[TriggerFields]) -> Iterator[Line]:
    """Why something that happened started no run: the newest first."""
    if not notes:
        return
    yield "", ""
    yield "bold", "what started nothing, the newest first"
    for note in notes[:MAX_NOTES]:
        yield DIM, to_printable(f"  {format_utc(note.get('at'))}  {describe_reason(note)}")


def next_steps(trigger: TriggerFields) -> Iterator[str]:
    name, command = trigger["trigger_id"], "unattended triggers"
    if trigger["state"] == "paused":
        yield f"let it start runs again: {command} resume {name}"
    elif trigger["outlook"].get("state") == "refused":
        yield "MongoDB refuses its pipeline: correct it, and the stream goes on by itself"
    elif trigger["outlook"].get("state") == "suspended":
        yield f"say from where its stream goes on: {command} resume {name} --from now"
    elif trigger["state"] == "active":
        yield f"start a run by hand: {command} fire {name}"
