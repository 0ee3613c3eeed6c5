"""`unattended runs show`: the story of one run."""

from typing import Any

import click

from ops.cli.command import command
from ops.cli.completing import completed_by, runs
from ops.cli.output import json_option, print_json
from ops.cli.runs.asking import refusals_in_one_line
from ops.cli.runs.lines import print_lines
from ops.cli.runs.story_lines import story_lines
from ops.cli.session import with_database


@command(
    "show",
    examples=["unattended runs show 8C0A2F", "unattended runs show run_01JX2B5W8ZK4M7Q9T1V38C0A2F --json"],
    related=["runs list", "runs tail", "runs replay"],
)
@click.argument("run_id", shell_complete=completed_by(runs()))
@json_option
def show_run(run_id: str, as_json: bool) -> None:
    """Tells the story of one run, and what to do next.

    Owners, turns, tools, what changed, errors, cost. RUN_ID may be its last six letters, as tables show them.
    """
    with refusals_in_one_line():
        story = with_database(lambda database, _: _story(database, run_id))
    if as_json:
        print_json(story)
    else:
        print_lines(story_lines(story))


async def _story(database: Any, run_id: str) -> dict[str, Any]:
    from workers.control.naming import whole_run_id
    from workers.control.story import story_of
    from workers.store.run_store import RunStore

    store = RunStore(database)
    return await story_of(store, await whole_run_id(store, run_id))
