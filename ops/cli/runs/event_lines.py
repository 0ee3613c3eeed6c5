"""Events of runs as lines, for `unattended runs tail`."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from rich.text import Text

from ops.presenters.printable_text import to_printable
from ops.presenters.run_lines import describe_hold
from ops.presenters.times import format_utc
from ops.presenters.turn_lines import BAD, DIM, GOOD, WARNING, format_value
from workers.control.run_events import RunEvent
from workers.store.run import RunState
from workers.store.run_order import ORDER_PREFIX

MAX_TEXT_CHARACTERS = 100
_STYLES = {RunState.SUCCEEDED.value: GOOD, RunState.NEEDS_HUMAN.value: WARNING}
Facts = Mapping[str, Any]


def event_line(event: RunEvent, *, is_single_run: bool) -> Text:
    """Format one event; the lines of a single run do not repeat its id."""
    style, text = _EVENT_TEXT[event.event](event.facts)
    time = event.at.strftime("%H:%M:%S") if isinstance(event.at, datetime) else " " * 8
    run = "" if is_single_run else to_printable(f"…{event.run_id[-6:]} {event.workflow}/{event.app_id}  ")
    return Text.assemble((f"{time}  ", DIM), run, (to_printable(text), style))


def _turn_text(facts: Facts) -> tuple[str, str]:
    tokens = facts["tokens"]
    head = f"{facts['number']}. {facts['agent']} → {facts['handoff'] or 'end'}"
    cost = f"({tokens.get('input', 0)} in, {tokens.get('output', 0)} out, {facts['duration_s']:.2f} s)"
    tools = ", ".join(call["name"] for call in facts["tool_calls"])
    text = " ".join(facts["text"].split())
    preview = text if len(text) <= MAX_TEXT_CHARACTERS else f"{text[:MAX_TEXT_CHARACTERS]}…"
    failed = f"! {len(facts['errors'])} errors" if facts.get("errors") else ""
    return "", "  ".join(filter(None, (head, cost, f"calls {tools}" if tools else "", failed, preview)))


def _release_text(facts: Facts) -> tuple[str, str]:
    end = facts["ended"].replace("_", " ")
    return WARNING, f"{end} after turn {facts['turn']}" + (f": {facts['reason']}" if facts["reason"] else "")


def _hold_text(facts: Facts) -> tuple[str, str]:
    if str(facts["held_by"]).startswith(ORDER_PREFIX):
        return DIM, f"waits for its turn in {facts['held_by'].removeprefix(ORDER_PREFIX)}"
    return WARNING, f"held {describe_hold(facts)}"


def _resolution_text(facts: Facts) -> tuple[str, str]:
    return DIM, f"{facts['how']} by {facts['by']}" + (f", as {facts['run_id']}" if facts["run_id"] else "")


def _end_text(facts: Facts) -> tuple[str, str]:
    state = facts["state"]
    reason = f": {format_value(facts['reason'])}" if facts["reason"] else ""
    return _STYLES.get(state, BAD), f"{state}, {facts['outcome']}{reason}"


_EVENT_TEXT: dict[str, Callable[[Facts], tuple[str, str]]] = {
    "accepted": lambda facts: (DIM, f"accepted from {facts['trigger']}"),
    "claimed": lambda facts: (DIM, f"claimed by {facts['owner']}, lease {facts['token']}"),
    "turn": _turn_text,
    "let_go": _release_text,
    "held": _hold_text,
    "due": lambda facts: (DIM, f"queued until {format_utc(facts['not_before'])}"),
    "cancel_requested": lambda facts: (WARNING, f"cancellation requested by {facts['by']}"),
    "answered": lambda _: (DIM, "answered, and queued again"),
    "resolved": _resolution_text,
    "ended": _end_text,
}
