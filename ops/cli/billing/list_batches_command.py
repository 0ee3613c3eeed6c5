"""`unattended billing list` and `show`."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from ops.cli.command import command
from ops.cli.completion import complete_with, find_ids
from ops.cli.database_session import with_database
from ops.cli.output import exit_with_error, json_option, print_json, print_table
from ops.cli.text_grid import GridColumn, fit_columns, grid_lines
from ops.presenters.amounts import format_exact_usd
from ops.presenters.printable_text import to_printable
from ops.presenters.times import format_moment

if TYPE_CHECKING:
    from ops.cli.output import Terminal

Row = Mapping[str, Any]

STATES = ("pending", "delivered", "dead")
DEFAULT_LIMIT = 100
MAX_LIMIT = 1_000_000
_NAME_FIELDS = (("app", "app_id"), ("workflow", "workflow"), ("model", "model"))


def batch_lines(rows: Sequence[Row], terminal: "Terminal") -> Iterator[str]:
    failures = [to_printable(row["last_failure"]["what"]) if row["last_failure"] else "" for row in rows]
    columns = [
        _text_column("batch", [row["batch_id"] for row in rows]),
        _text_column("state", [row["state"] for row in rows]),
        GridColumn("events", [str(row["events"]) for row in rows]),
        GridColumn("failures", [str(row["failures"]) for row in rows]),
        _time_column("created", [row["created_at"] for row in rows]),
        _time_column("next attempt", [row["next_attempt_at"] for row in rows]),
        _text_column("last failure", failures, max_width=max(terminal.width // 4, 12)),
    ]
    return _table_lines(columns, terminal, ("created", "failures", "events", "last failure", "next attempt"))


def event_lines(events: Sequence[Row], terminal: "Terminal") -> Iterator[str]:
    max_width = max(terminal.width // 6, 10)
    columns = [
        _text_column("event", [event["id"] for event in events], max_width=max(terminal.width // 3, 20)),
        *(_text_column(name, [event[field] for event in events], max_width=max_width) for name, field in _NAME_FIELDS),
        GridColumn("tokens", [str(event["tokens_used"]) for event in events]),
        GridColumn("USD", [format_exact_usd(event["cost_usd"]) for event in events]),
        _text_column("status", [event_status(event) for event in events]),
    ]
    return _table_lines(columns, terminal, ("model", "workflow", "app", "status"))


def event_status(event: Row) -> str:
    return f"{event['status']}{' (corrects)' if event['corrects'] else ''}"


def _table_lines(columns: Sequence[GridColumn], terminal: "Terminal", drop_order: Sequence[str]) -> Iterator[str]:
    title, *lines = grid_lines(fit_columns(columns, terminal.width, drop_order), unicode=terminal.has_unicode)
    yield terminal.style(title.rstrip(), bold=True)
    yield from (line.rstrip() for line in lines)


def _text_column(title: str, texts: Sequence[str], *, max_width: int | None = None) -> GridColumn:
    return GridColumn(title, [to_printable(text) for text in texts], is_right_aligned=False, max_width=max_width)


def _time_column(title: str, times: Sequence[datetime | None]) -> GridColumn:
    """On a narrow terminal, leave out the year and the seconds."""
    cells = [format_moment(time) for time in times]
    return GridColumn(title, cells, [cell[5:16] for cell in cells], is_right_aligned=False)


@command(
    "list",
    examples=["unattended billing list", "unattended billing list --state dead --json"],
    related=["billing show", "billing replay"],
)
@click.option("--state", type=click.Choice(STATES), help="Only batches in this state.")
@click.option("--limit", default=DEFAULT_LIMIT, type=click.IntRange(1, MAX_LIMIT), help="Maximum number of batches.")
@json_option
def list_batches(state: str | None, limit: int, as_json: bool) -> None:
    """Lists batches, the newest first.

    Delivered batches are kept for 7 days.
    """
    from accounting.billing.outbox_batches import batch_as_json, find_batches

    found = with_database(lambda database, _: find_batches(database, state=state, limit=limit))
    rows = [batch_as_json(batch) for batch in found]
    if as_json:
        print_json(rows)
        return
    columns = ["batch", "state", "events", "failures", "created", "next attempt", "last failure"]
    _print_rows("Batches", columns, rows, _batch_cells, batch_lines)
    if not rows:
        click.echo("there are no batches" if state is None else f"there are no {state} batches", err=True)


def _batch_cells(row: Row) -> list[Any]:
    last = row["last_failure"]
    times = [format_moment(row["created_at"]), format_moment(row["next_attempt_at"])]
    return [row["batch_id"], row["state"], row["events"], row["failures"], *times, last and last["what"]]


@command("show", examples=["unattended billing show 01JX2B5W8ZK4M7Q9T1V3Y6A8C0"], related=["billing list"])
@click.argument("batch_id", metavar="BATCH", shell_complete=complete_with(find_ids("outbox", "state")))
@json_option
def show_batch(batch_id: str, as_json: bool) -> None:
    """Shows one batch and its events."""
    from accounting.billing.outbox_batches import batch_as_json, find_batch

    batch = with_database(lambda database, _: find_batch(database, batch_id))
    if batch is None:
        exit_with_error(f"there is no batch {batch_id}; `unattended billing list` lists the batches")
    facts, payload = batch_as_json(batch), json.loads(batch["body"])
    if as_json:
        print_json({**facts, "payload": payload})
        return
    for name, value in facts.items():
        if name != "last_failure" and value is not None:
            click.echo(f"{name + ':':<16} {format_moment(value) or value}")
    if last := facts["last_failure"]:
        click.echo(f"last_failure:    {format_moment(last['at'])} {to_printable(last['what'])}")
    columns = ["event", "app", "workflow", "model", "tokens", "USD", "status"]
    _print_rows("Events", columns, payload["data"]["events"], _event_cells, event_lines)


def _event_cells(event: Row) -> list[Any]:
    names = ("id", "app_id", "workflow", "model", "tokens_used")
    return [*(event[name] for name in names), format_exact_usd(event["cost_usd"]), event_status(event)]


def _print_rows(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Row],
    cells: Callable[[Row], list[Any]],
    lines: "Callable[[Sequence[Row], Terminal], Iterator[str]]",
) -> None:
    """Print one line per row on a terminal, however narrow; all cells in a pipe."""
    if not sys.stdout.isatty():
        print_table(title, columns, map(cells, rows))
        return
    from ops.cli.output import current_terminal

    if rows:
        terminal = current_terminal()
        terminal.print("\n".join(lines(rows, terminal)))
