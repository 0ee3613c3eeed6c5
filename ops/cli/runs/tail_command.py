"""`unattended runs tail`: follows the events of one run, or of all runs."""

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime
from typing import Any

import click
from rich.text import Text

from ops.cli.command import command
from ops.cli.completion import complete_with, find_runs
from ops.cli.database_session import with_database
from ops.cli.exit_codes import EXIT_FAILURE
from ops.cli.output import discard_stdout, json_option, line_console, print_json_line
from ops.cli.runs.run_options import exit_on_refusal, owner_options, parse_run_filter
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


@command(
    "tail",
    examples=["unattended runs tail 8C0A2F", "unattended runs tail --app acme --json"],
    related=["runs show", "runs list"],
)
@click.argument("run_id", required=False, shell_complete=complete_with(find_runs()))
@owner_options
@json_option
def tail(run_id: str | None, as_json: bool, **options: Any) -> None:
    """Follows one run until it ends, or all runs.

    Prints turns, owners, holds and ends as they happen; without RUN_ID until Ctrl-C. Exit code 0 when the run succeeds,
    else 1. With --json each line is one JSON object.
    """
    if run_id is not None and any(options.values()):
        raise click.UsageError("name a run or use filters, not both")
    with exit_on_refusal():
        try:
            state = with_database(lambda database, _: _follow(database, run_id, as_json, **options))
        except BrokenPipeError:
            discard_stdout()
            return
    raise SystemExit(0 if state == RunState.SUCCEEDED else EXIT_FAILURE)


async def _follow(database: Any, run_id: str | None, as_json: bool, **options: Any) -> str | None:
    """Print events until the run is at rest; return its final state."""
    state = None
    console = line_console()
    async for event in await _run_events(database, run_id, **options):
        if as_json:
            print_json_line(event.as_json())
        else:
            console.print(event_line(event, is_single_run=run_id is not None))
        if event.event == "ended":
            state = event.facts["state"]
    return state


async def _run_events(database: Any, run_id: str | None, **options: Any) -> AsyncIterator[RunEvent]:
    from workers.control.run_ids import resolve_run_id
    from workers.control.run_tail import follow_all, follow_run, read_store_time
    from workers.store.run_store import RunStore

    store = RunStore(database)
    if run_id is None:
        since = await read_store_time(store)
        click.echo("following all runs; press Ctrl-C to stop", err=True)
        return follow_all(store, parse_run_filter(options), since=since)
    return follow_run(store, await resolve_run_id(store, run_id))


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
