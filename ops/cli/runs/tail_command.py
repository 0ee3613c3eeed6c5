"""`unattended runs tail`: follows the events of one run, or of all runs."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import click

from ops.cli.command import command
from ops.cli.completion import complete_with, find_runs
from ops.cli.exit_codes import EXIT_FAILURE
from ops.cli.output import discard_stdout, json_option, line_console, print_json_line
from ops.cli.runs.event_lines import event_line
from ops.cli.runs.run_options import exit_on_refusal, owner_options, parse_run_filter
from ops.cli.session import with_database
from workers.store.run import RunState

if TYPE_CHECKING:
    from workers.control.run_events import RunEvent


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


async def _run_events(database: Any, run_id: str | None, **options: Any) -> "AsyncIterator[RunEvent]":
    from workers.control.run_ids import resolve_run_id
    from workers.control.run_tail import follow_all, follow_run, read_store_time
    from workers.store.run_store import RunStore

    store = RunStore(database)
    if run_id is None:
        since = await read_store_time(store)
        click.echo("following all runs; press Ctrl-C to stop", err=True)
        return follow_all(store, parse_run_filter(options), since=since)
    return follow_run(store, await resolve_run_id(store, run_id))
