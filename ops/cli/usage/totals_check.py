"""`unattended usage --verify` and `--rebuild`: the totals against the ledger that they are sums of."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from ops.cli.output import print_json, print_table
from ops.cli.progress import show_progress
from ops.cli.session import with_database

if TYPE_CHECKING:
    from pymongo.asynchronous.database import AsyncDatabase

    from accounting.totals.rebuild import Difference

    Database = AsyncDatabase[dict[str, Any]]

EXIT_FAILURE = 1


def verify_totals(*, as_json: bool) -> None:
    from accounting.totals.rebuild import find_differences

    async def work(database: "Database", _settings: object) -> "Sequence[Difference]":
        return await find_differences(database, told)

    with show_progress("hours verified") as told:
        found = with_database(work)
    if as_json:
        print_json([asdict(each) for each in found])
    elif found:
        rows = [
            [_format_hour(each.hour), _format_labels(each.labels), each.field, each.right, each.kept] for each in found
        ]
        print_table("Differences", ["hour", "of", "field", "ledger", "totals"], rows)
    else:
        click.echo("the totals say what the ledger says")
    if found:
        number = "1 difference" if len(found) == 1 else f"{len(found):,} differences"
        click.echo(f"{number}; `unattended usage --rebuild` makes the totals anew from the ledger", err=True)
        raise SystemExit(EXIT_FAILURE)


def rebuild_totals(*, as_json: bool) -> None:
    from accounting.totals.rebuild import rebuild

    async def work(database: "Database", _settings: object) -> int:
        return await rebuild(database, told)

    with show_progress("hours rebuilt") as told:
        changed = with_database(work)
    if as_json:
        print_json({"changed": changed})
        return
    documents = "1 document has" if changed == 1 else f"{changed:,} documents have"
    click.echo(f"rebuilt: {documents} changed" if changed else "rebuilt: nothing has changed")


def _format_hour(hour: datetime | None) -> str:
    return "all time" if hour is None else f"{hour:%Y-%m-%d %H:00} UTC"


def _format_labels(labels: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in labels.items())
