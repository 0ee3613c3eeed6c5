"""`unattended runs list`."""

import sys
from typing import Any

import click
from rich.console import Console

from ops.cli.output import json_option, moment, print_json, print_table
from ops.cli.runs.asking import filter_options, matching
from ops.cli.session import with_database

WIDE = 130
_SHOWN = ("app_id", "workflow", "trigger.name", "state", "hold", "outcome.kind", "turn", "created_at")


@click.command("list")
@filter_options
@click.option("--limit", default=1000, show_default=True, type=click.IntRange(min=1))
@json_option
def list_runs(limit: int, as_json: bool, **given: Any) -> None:
    """Newest first. Filters narrow each other; --state may be repeated."""
    from workers.store.run_document import as_json as run_as_json
    from workers.store.run_store import RunStore

    wanted, only = matching(given), None if as_json else _SHOWN
    found = with_database(lambda database, _: RunStore(database).list(wanted, limit=limit, only=only))
    if as_json:
        print_json([run_as_json(run) for run in found])
        return
    columns = ["run", "app", "workflow", "trigger", "state", "outcome", "turns", "created"]
    print_table("Runs", columns, [[_name(run["_id"]), *_row(run)] for run in found])


def _name(run_id: str) -> str:
    """On a narrow terminal its end, which every command takes for the whole."""
    return f"…{run_id[-6:]}" if sys.stdout.isatty() and Console().width < WIDE else run_id


def _row(run: dict[str, Any]) -> list[Any]:
    state = run["state"] if run["hold"] is None else f"{run['state']} ({run['hold']})"
    outcome = (run.get("outcome") or {}).get("kind")  # left out by the store where there is none yet
    named = [run["app_id"], run["workflow"], run["trigger"]["name"]]
    return [*named, state, outcome, run["turn"], moment(run["created_at"])]
