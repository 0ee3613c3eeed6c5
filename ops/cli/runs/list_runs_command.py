"""`unattended runs list`."""

import sys
from typing import Any

import click

from ops.cli.command import command
from ops.cli.database_session import with_database
from ops.cli.output import json_option, make_console, print_json, print_table
from ops.cli.runs.run_options import filter_options, parse_run_filter
from ops.presenters.run_lines import describe_state
from ops.presenters.times import format_moment
from workers.store.run_filter import RunFilter

MIN_FULL_WIDTH = 130
DEFAULT_LIMIT = 1000
MAX_LIMIT = 1_000_000
_FIELDS = (
    *("app_id", "workflow", "trigger.name", "state", "hold", "held_by", "not_before"),
    *("outcome.kind", "outcome.stranded", "turn", "created_at", "failed_tools"),
)


@command(
    "list",
    examples=[
        "unattended runs list --state parked --since 2d",
        "unattended runs list --app acme --workflow DailyDigest --outcome workflow_failed",
        "unattended runs list --limit 20 --json",
    ],
    related=["runs show", "runs tail", "runs replay"],
)
@filter_options
@click.option("--limit", default=DEFAULT_LIMIT, type=click.IntRange(1, MAX_LIMIT), help="Maximum number of runs.")
@json_option
def list_runs(limit: int, as_json: bool, **options: Any) -> None:
    """Lists runs, the newest first.

    Several filters must all match; --state may be repeated.
    """
    from workers.store.run_document import as_json as run_as_json
    from workers.store.run_store import RunStore

    run_filter, fields = parse_run_filter(options), None if as_json else _FIELDS
    found = with_database(lambda database, _: RunStore(database).list(run_filter, limit=limit, only=fields))
    if len(found) == limit == DEFAULT_LIMIT:
        click.echo(f"the newest {limit} runs; --limit shows more", err=True)
    if as_json:
        print_json([run_as_json(run) for run in found])
        return
    columns = ["run", "app", "workflow", "trigger", "state", "outcome", "turns", "created"]
    if any(run.get("failed_tools") for run in found):  # rare, and a column takes width
        columns.append("failed calls")
    is_narrow = sys.stdout.isatty() and make_console().width < MIN_FULL_WIDTH
    rows = [_run_cells(run, is_narrow=is_narrow)[: len(columns)] for run in found]
    print_table("Runs", columns, rows, unfolded={"run", *columns[4:]})
    if not found:
        click.echo("there are no runs yet" if run_filter == RunFilter() else "no run matches", err=True)


def _run_cells(run: dict[str, Any], *, is_narrow: bool) -> list[Any]:
    """When narrow, show the end of the id, which every command accepts, and no year or seconds."""
    state = describe_state(run)
    outcome_fields = run.get("outcome") or {}
    kind = outcome_fields.get("kind")
    outcome = f"{kind} (stranded)" if outcome_fields.get("stranded") else kind
    names = [run["app_id"], run["workflow"], run["trigger"]["name"]]
    run_id, created = run["_id"], format_moment(run["created_at"])
    if is_narrow:
        run_id, created = f"…{run_id[-6:]}", created[5:16]
        outcome = None if outcome == run["state"] else outcome
    return [run_id, *names, state, outcome, run["turn"], created, run.get("failed_tools") or None]
