"""A trigger as lines: how it stands, what comes next, what came of it so far and why, and what to do about it."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from ops.cli.runs.lines import clock, lasting
from ops.cli.triggers.reasons import in_this_environment, reason_in_words, why_inactive
from ops.cli.turn_lines import BAD, DIM, GOOD, Line, shown
from ops.cli.verdicts import printable

WARN = "yellow"
MAX_APPS_SHOWN = 10
MAX_NOTES_SHOWN = 10
Shown = Mapping[str, Any]
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
_TOLD_ELSEWHERE = frozenset(
    {
        *("name", "type", "description", "apps", "app_id", "cron", "every", "at", "timezone"),
        *("inputs", "verify", "accept", "rate", "dedupe", "title", "ui_responses"),
    }
)
_STATES = {"active": GOOD, "paused": WARN, "inactive": BAD}


def trigger_lines(trigger: Shown) -> Iterator[Line]:
    yield "bold", printable(f"{trigger['workflow']}/{trigger['name']}  {trigger['type']} for {_apps(trigger)}")
    yield from _standing(trigger)
    if trigger["description"]:
        yield "", printable(f"  {trigger['description']}")
    for name, value in facts(trigger):
        yield "", printable(f"  {name:<12} {value}")
    yield from _outlook(trigger["outlook"], is_paused=trigger["state"] == "paused")
    yield from _notes(trigger["notes"])
    for step in next_steps(trigger):
        yield "", printable(f"→ {step}")


def _apps(trigger: Shown) -> str:
    if trigger["apps_from"] is not None:
        return f"the apps of the {trigger['apps_from']}"
    apps = trigger["apps"]
    more = f" and {len(apps) - MAX_APPS_SHOWN} more" if len(apps) > MAX_APPS_SHOWN else ""
    return (", ".join(apps[:MAX_APPS_SHOWN]) + more) or "no app"


def _standing(trigger: Shown) -> Iterator[Line]:
    state = trigger["state"]
    why = why_inactive(trigger)
    yield _STATES[state], printable(f"{state}: {why}" if why and state == "inactive" else state)
    if trigger["paused"]:
        yield WARN, printable(f"  paused {_pause(trigger['paused'])}")
    if why and state == "paused":
        yield BAD, printable(f"  and inactive: {why}")
    for app_id, pause in list(trigger["paused_apps"].items())[:MAX_APPS_SHOWN]:
        yield WARN, printable(f"  paused for {app_id} {_pause(pause)}")


def _pause(pause: Shown) -> str:
    note = f": {pause['note']}" if pause["note"] else ""
    return f"by {pause['by']}, {clock(pause['at'])}{note}"


def facts(trigger: Shown) -> Iterator[tuple[str, str]]:
    if trigger["origin"] == "package":
        yield "from", f"the package {trigger['workflow']}"
    else:
        since = f", {clock(trigger['created_at'])}" if trigger["created_at"] else ""
        yield "made", f"at run time{since}, revision {trigger['revision']}"
    if "answers_approved_by" in trigger:
        yield (
            "answers",
            f"in advance, approved by {trigger['answers_approved_by'] or 'no key that may approve: edit it'}",
        )
    if trigger["last_fired_at"]:
        ago = lasting(trigger["last_fired_at"], datetime.now(UTC))
        yield "last fired", f"{clock(trigger['last_fired_at'])}, {ago} ago"
    counts = trigger["counts"]
    if counts:
        yield "so far", ", ".join(f"{count} {_counted(name, count)}" for name, count in sorted(counts.items()))
    yield "source", trigger["source"]
    for name, value in (trigger.get("spec") or {}).items():
        if name not in _TOLD_ELSEWHERE and value not in (None, [], {}):
            yield name.replace("_", " "), shown(value)
    yield from _standing_answers((trigger.get("spec") or {}).get("ui_responses") or {})


def _standing_answers(answers: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What it answers for people, and for which calls: one line for each answer."""
    for tool, written in answers.items():
        for each in written if isinstance(written, list) else [{"answer": written}]:
            condition = f" when {each['when']}" if "when" in each else ""
            yield "answers", f"{tool}: {shown(each['answer'])}{condition}"


def _counted(name: str, count: int) -> str:
    kind, _, reason = name.partition(".")
    if reason:
        return f"{kind} ({reason.replace('_', ' ')})"
    return "duplicates" if kind == "duplicate" and count != 1 else kind


def _outlook(outlook: Shown, *, is_paused: bool) -> Iterator[Line]:
    if "warning" in outlook:
        yield WARN, printable(f"  ! {outlook['warning']}")
    for label, lines in outlook_facts(outlook, is_paused=is_paused):
        for index, line in enumerate(lines):
            yield "", printable(f"  {'' if index else label:<12} {line}")


def outlook_facts(outlook: Shown, *, is_paused: bool) -> Iterator[tuple[str, Sequence[str]]]:
    """Each kind tells in its own words: a list is one line each, what is not known is left out."""
    for name, value in outlook.items():
        if name == "warning":
            continue
        label = "would run at" if is_paused and name == "next" else _LABELS.get(name, name.replace("_", " "))
        if lines := _values(_seconds(value) if name.endswith("_s") else value):
            yield label, lines


def _seconds(value: float | None) -> str | None:
    return None if value is None else lasting(_EPOCH, _EPOCH + timedelta(seconds=value))


def _values(value: Any) -> Sequence[str]:
    if isinstance(value, Mapping):
        return [f"{name}  {_value(each)}" for name, each in value.items()]
    if isinstance(value, list | tuple):
        plain = all(isinstance(each, str | int | float) for each in value)
        return [", ".join(map(_value, value))] if plain and value else [_value(each) for each in value]
    return [] if value in (None, "") else [_value(value)]


def _value(value: Any) -> str:
    if isinstance(value, datetime):
        return clock(value.astimezone(UTC)) if value.tzinfo else clock(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping) and set(value) == {"utc", "local"}:
        return _in_both(value["utc"], str(value["local"]))
    if isinstance(value, Mapping) and set(value) == {"secret", "problem"}:
        return f"{value['secret']}  {in_this_environment(value['problem'])}" if value["problem"] else value["secret"]
    if isinstance(value, Mapping):
        said = {name: each for name, each in value.items() if each not in (None, "")}
        return ", ".join(f"{name.replace('_', ' ')} {_value(each)}" for name, each in said.items())
    return shown(value)


def _in_both(utc: datetime, local: str) -> str:
    """The zone's own time where it is another one."""
    return clock(utc) if local.endswith("+00:00") else f"{clock(utc)}  ({local.replace('T', ' ')})"


def _notes(notes: Sequence[Shown]) -> Iterator[Line]:
    """Why something that happened started no run: the newest first."""
    if not notes:
        return
    yield "", ""
    yield "bold", "what started nothing, the newest first"
    for note in notes[:MAX_NOTES_SHOWN]:
        yield DIM, printable(f"  {clock(note.get('at'))}  {reason_in_words(note)}")


def next_steps(trigger: Shown) -> Iterator[str]:
    name, command = trigger["trigger_id"], "unattended triggers"
    if trigger["state"] == "paused":
        yield f"let it start runs again: {command} resume {name}"
    elif trigger["outlook"].get("state") == "refused":
        yield "MongoDB refuses its pipeline: correct it, and the stream goes on by itself"
    elif trigger["outlook"].get("state") == "suspended":
        yield f"say from where its stream goes on: {command} resume {name} --from now"
    elif trigger["state"] == "active":
        yield f"start a run by hand: {command} fire {name}"
