"""A trigger as lines: state, facts, what comes next, skipped events, and what to do."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from ops.presenters.printable_text import to_printable
from ops.presenters.skip_reasons import describe_reason, environment_problem, inactive_reason
from ops.presenters.times import format_duration, format_utc
from ops.presenters.turn_lines import BAD, DIM, GOOD, WARNING, Line, format_value

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

# Fields of the entry that other lines show.
_SHOWN_ELSEWHERE = frozenset(
    {
        *("name", "type", "description", "apps", "app_id", "cron", "every", "at", "timezone"),
        *("inputs", "verify", "accept", "rate", "dedupe", "title", "ui_responses"),
    }
)
_STATES = {"active": GOOD, "paused": WARNING, "inactive": BAD}


def trigger_lines(trigger: TriggerFields) -> Iterator[Line]:
    prefix = "" if trigger["apps_from"] is None else "apps "
    apps = apps_text(trigger, max_apps=MAX_APPS)
    yield "bold", to_printable(f"{trigger['workflow']}/{trigger['name']}  {trigger['type']} for {prefix}{apps}")
    yield from _state_lines(trigger)
    if trigger["description"]:
        yield "", to_printable(f"  {trigger['description']}")
    for name, value in trigger_facts(trigger):
        yield "", to_printable(f"  {name:<12} {value}")
    yield from _outlook_lines(trigger["outlook"], is_paused=trigger["state"] == "paused")
    yield from _note_lines(trigger["notes"])
    for step in next_steps(trigger):
        yield "", to_printable(f"→ {step}")


def apps_text(trigger: TriggerFields, *, max_apps: int) -> str:
    if trigger["apps_from"] is not None:
        return f"from the {trigger['apps_from']}"
    apps = trigger["apps"]
    rest = f" and {len(apps) - max_apps} more" if len(apps) > max_apps else ""
    return (", ".join(apps[:max_apps]) + rest) or "no app"


def state_reason(trigger: TriggerFields, *, inactive: str) -> str:
    """Explain a state other than active: the author and note of a pause, else `inactive`."""
    if trigger["state"] == "paused":
        pause = trigger["paused"] or next(iter(trigger["paused_apps"].values()), None)
        return "" if pause is None else f"by {pause['by']}{': ' + pause['note'] if pause['note'] else ''}"
    paused_apps = f"paused for {len(trigger['paused_apps'])} of its apps" if trigger["paused_apps"] else ""
    return inactive or paused_apps


def _state_lines(trigger: TriggerFields) -> Iterator[Line]:
    state = trigger["state"]
    reason = inactive_reason(trigger)
    yield _STATES[state], to_printable(f"{state}: {reason}" if reason and state == "inactive" else state)
    if trigger["paused"]:
        yield WARNING, to_printable(f"  paused {_pause_text(trigger['paused'])}")
    if reason and state == "paused":
        yield BAD, to_printable(f"  and inactive: {reason}")
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
        yield "created", f"at run time{since}, revision {trigger['revision']}"
    if "answers_approved_by" in trigger:
        yield (
            "answers",
            f"in advance, approved by {trigger['answers_approved_by'] or 'no key that may approve; edit the trigger'}",
        )
    if trigger["last_fired_at"]:
        ago = format_duration(trigger["last_fired_at"], datetime.now(UTC))
        yield "last fired", f"{format_utc(trigger['last_fired_at'])}, {ago} ago"
    counts = trigger["counts"]
    if counts:
        yield "counts", ", ".join(f"{count} {_count_label(name, count)}" for name, count in sorted(counts.items()))
    yield "source", trigger["source"]
    for name, value in (trigger.get("spec") or {}).items():
        if name not in _SHOWN_ELSEWHERE and value not in (None, [], {}):
            yield name.replace("_", " "), format_value(value)
    yield from _answer_facts((trigger.get("spec") or {}).get("ui_responses") or {})


def _answer_facts(answers: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield one line per answer that the trigger gives in place of a person."""
    for tool, value in answers.items():
        for answer in value if isinstance(value, list) else [{"answer": value}]:
            condition = f" when {answer['when']}" if "when" in answer else ""
            yield "answers", f"{tool}: {format_value(answer['answer'])}{condition}"


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
    """Format the outlook of any kind of trigger; a list takes a line per item, an unknown value none."""
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
        return [f"{name}  {_value_text(item)}" for name, item in value.items()]
    if isinstance(value, list | tuple):
        is_plain = all(isinstance(item, str | int | float) for item in value)
        return [", ".join(map(_value_text, value))] if is_plain and value else [_value_text(item) for item in value]
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
        known = {name: item for name, item in value.items() if item not in (None, "")}
        return ", ".join(f"{name.replace('_', ' ')} {_value_text(item)}" for name, item in known.items())
    return format_value(value)


def _utc_and_local(utc: datetime, local: str) -> str:
    """Add the local time if the zone is not UTC."""
    return format_utc(utc) if local.endswith("+00:00") else f"{format_utc(utc)}  ({local.replace('T', ' ')})"


def _note_lines(notes: Sequence[TriggerFields]) -> Iterator[Line]:
    """Yield the events that started no run, the newest first."""
    if not notes:
        return
    yield "", ""
    yield "bold", "skipped events, the newest first"
    for note in notes[:MAX_NOTES]:
        yield DIM, to_printable(f"  {format_utc(note.get('at'))}  {describe_reason(note)}")


def next_steps(trigger: TriggerFields) -> Iterator[str]:
    name, command = trigger["trigger_id"], "unattended triggers"
    if trigger["state"] == "paused":
        yield f"resume it: {command} resume {name}"
    elif trigger["outlook"].get("state") == "refused":
        yield "MongoDB refuses its pipeline: correct the pipeline, and the stream continues by itself"
    elif trigger["outlook"].get("state") == "suspended":
        yield f"resume its stream from a chosen position: {command} resume {name} --from now"
    elif trigger["state"] == "active":
        yield f"start a run by hand: {command} fire {name}"
