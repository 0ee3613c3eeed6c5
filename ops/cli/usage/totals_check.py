"""`unattended usage --verify` and `--rebuild`: compares the totals with the ledger, or rebuilds them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from ops.cli.exit_codes import EXIT_FAILURE
from ops.cli.output import print_json, print_table
from ops.cli.progress import show_progress
from ops.cli.session import with_database
from ops.presenters.amounts import pluralize

if TYPE_CHECKING:
    from pymongo.asynchronous.database import AsyncDatabase

    from accounting.totals.rebuild import Difference

    Database = AsyncDatabase[dict[str, Any]]


def verify_totals(*, as_json: bool) -> None:
    from accounting.totals.rebuild import find_differences

    async def work(database: "Database", _settings: object) -> "Sequence[Difference]":
        return await find_differences(database, report)

    with show_progress("hours verified") as report:
        found = with_database(work)
    if as_json:
        print_json([asdict(difference) for difference in found])
    elif found:
        rows = [[_format_hour(row.hour), _format_labels(row.labels), row.field, row.right, row.kept] for row in found]
        print_table("Differences", ["hour", "of", "field", "ledger", "totals"], rows)
    else:
        click.echo("the totals match the ledger")
    if found:
        number = pluralize(len(found), "difference")
        click.echo(f"{number}; `unattended usage --rebuild` rebuilds the totals from the ledger", err=True)
        raise SystemExit(EXIT_FAILURE)


def rebuild_totals(*, as_json: bool) -> None:
    from accounting.totals.rebuild import rebuild

    async def work(database: "Database", _settings: object) -> int:
        return await rebuild(database, report)

    with show_progress("hours rebuilt") as report:
        changed = with_database(work)
    if as_json:
        print_json({"changed": changed})
        return
    click.echo(f"rebuilt: {pluralize(changed, 'document')} changed" if changed else "rebuilt: nothing has changed")


def _format_hour(hour: datetime | None) -> str:
    return "all time" if hour is None else f"{hour:%Y-%m-%d %H:00} UTC"


def _format_labels(labels: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in labels.items())
