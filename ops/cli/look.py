"""`unattended usage`: what the ledger says."""

from datetime import datetime

import click

from ops.cli.output import json_option, print_json, print_table, usd
from ops.cli.runs.asking import MOMENT
from ops.cli.session import with_database

BY = {"app": "app_id", "workflow": "workflow", "model": "model", "agent": "agent", "day": "day"}


@click.command()
@click.option("--app", "app_id", help="Only this app.")
@click.option("--by", type=click.Choice(list(BY)), default="app", show_default=True)
@click.option("--since", type=MOMENT, help="A date (2026-01-31) or an age (7d, 12h). Default: all time.")
@json_option
def usage(app_id: str | None, by: str, since: datetime | None, as_json: bool) -> None:
    """Tokens and USD, summed from the ledger."""
    from accounting.totals.reading import Wanted, usage_totals

    rows = with_database(lambda database, _: usage_totals(database, [BY[by]], Wanted(app_id=app_id, since=since)))
    if as_json:
        print_json([row.as_json() for row in rows])
        return
    print_table(
        "Usage",
        [by, "calls", "input", "cached", "output", "missing", "USD"],
        [
            [
                row.key[BY[by]],
                row.calls,
                row.input_tokens,
                row.cached_input_tokens,
                row.output_tokens,
                row.missing,
                usd(row.cost_usd),
            ]
            for row in rows
        ],
    )
    unpriced = sum(row.unpriced for row in rows)
    if unpriced:
        click.echo(f"{unpriced} calls have no price and are not in the sums; add prices to the models file", err=True)
