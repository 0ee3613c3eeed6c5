"""`unattended runs show`: the history of one run."""

from typing import Any

import click

from ops.cli.command import command
from ops.cli.completion import complete_with, find_runs
from ops.cli.database_session import with_database
from ops.cli.output import json_option, print_json, print_lines
from ops.cli.runs.run_options import exit_on_refusal
from ops.presenters.run_lines import run_lines


@command(
    "show",
    examples=["unattended runs show 8C0A2F", "unattended runs show run_01JX2B5W8ZK4M7Q9T1V38C0A2F --json"],
    related=["runs list", "runs tail", "runs replay"],
)
@click.argument("run_id", shell_complete=complete_with(find_runs()))
@json_option
def show_run(run_id: str, as_json: bool) -> None:
    """Shows the history of one run, and what to do next.

    Owners, turns, tool calls, context changes, errors and cost. RUN_ID may be its last six characters, as tables show
    them.
    """
    with exit_on_refusal():
        story = with_database(lambda database, _: _read_story(database, run_id))
    if as_json:
        print_json(story)
    else:
        print_lines(run_lines(story))


async def _read_story(database: Any, run_id: str) -> dict[str, Any]:
    from workers.control.run_detail import read_run_detail
    from workers.control.run_ids import resolve_run_id
    from workers.store.run_store import RunStore

    store = RunStore(database)
    return await read_run_detail(store, await resolve_run_id(store, run_id))
