"""One line for each thing that happens to a run."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from rich.text import Text

from ops.cli.runs.lines import clock, held_by
from ops.cli.turn_lines import BAD, DIM, GOOD, shown
from ops.cli.verdicts import printable
from workers.control.happenings import Happening
from workers.store.ordering import PREFIX
from workers.store.run import RunState

MAX_SAID = 100
_STYLES = {RunState.SUCCEEDED.value: GOOD, RunState.NEEDS_HUMAN.value: "yellow"}  # a run that asks has not failed
Facts = Mapping[str, Any]


def happening_line(happening: Happening, *, alone: bool) -> Text:
    """`alone`: of one run, which need not be named in each line."""
    style, said = _SAID[happening.event](happening.facts)
    at = happening.at.strftime("%H:%M:%S") if isinstance(happening.at, datetime) else " " * 8
    whose = "" if alone else printable(f"…{happening.run_id[-6:]} {happening.workflow}/{happening.app_id}  ")
    return Text.assemble((f"{at}  ", DIM), whose, (printable(said), style))


def _turn(facts: Facts) -> tuple[str, str]:
    tokens = facts["tokens"]
    head = f"{facts['number']}. {facts['agent']} → {facts['handoff'] or 'end'}"
    cost = f"({tokens.get('input', 0)} in, {tokens.get('output', 0)} out, {facts['duration_s']:.2f} s)"
    tools = ", ".join(call["name"] for call in facts["tool_calls"])
    text = " ".join(facts["text"].split())
    said = text if len(text) <= MAX_SAID else f"{text[:MAX_SAID]}…"
    failed = f"! {len(facts['errors'])} errors" if facts.get("errors") else ""
    return "", "  ".join(filter(None, (head, cost, f"calls {tools}" if tools else "", failed, said)))


def _let_go(facts: Facts) -> tuple[str, str]:
    how = facts["ended"].replace("_", " ")
    return "yellow", f"{how} after turn {facts['turn']}" + (f": {facts['reason']}" if facts["reason"] else "")


def _held(facts: Facts) -> tuple[str, str]:
    if str(facts["held_by"]).startswith(PREFIX):
        return DIM, f"waits for its turn in {facts['held_by'].removeprefix(PREFIX)}"
    return "yellow", f"held {held_by(facts)}"


def _resolved(facts: Facts) -> tuple[str, str]:
    return DIM, f"{facts['how']} by {facts['by']}" + (f", as {facts['run_id']}" if facts["run_id"] else "")


def _ended(facts: Facts) -> tuple[str, str]:
    state = facts["state"]
    reason = f": {shown(facts['reason'])}" if facts["reason"] else ""
    return _STYLES.get(state, BAD), f"{state}, {facts['outcome']}{reason}"


_SAID: dict[str, Callable[[Facts], tuple[str, str]]] = {
    "accepted": lambda facts: (DIM, f"accepted from {facts['trigger']}"),
    "claimed": lambda facts: (DIM, f"taken by {facts['owner']}, lease {facts['token']}"),
    "turn": _turn,
    "let_go": _let_go,
    "held": _held,
    "due": lambda facts: (DIM, f"queued until {clock(facts['not_before'])}"),
    "cancel_requested": lambda facts: ("yellow", f"{facts['by']} asks to cancel it"),
    "answered": lambda _: (DIM, "answered, and queued again"),
    "resolved": _resolved,
    "ended": _ended,
}
