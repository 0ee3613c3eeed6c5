"""`unattended billing resend`: puts calls of the ledger into new batches."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from ops.cli.billing.ledger_filter_options import call_options, parse_call_filter
from ops.cli.command import command
from ops.cli.confirmation import confirm_or_exit, print_result, yes_option
from ops.cli.database_session import with_database
from ops.cli.output import json_option
from ops.cli.progress import ReportProgress, show_progress
from ops.presenters.amounts import pluralize

if TYPE_CHECKING:
    from accounting.totals.usage_query import UsageFilter


@command(
    "resend",
    examples=[
        "unattended billing resend --since 2026-01-31 --dry-run",
        "unattended billing resend --since 7d --app acme --yes",
    ],
    related=["billing status", "billing export"],
)
@call_options
@click.option("--dry-run", is_flag=True, help="Show the number of calls, and change nothing.")
@yes_option
@json_option
def resend(since: datetime | None, dry_run: bool, yes: bool, as_json: bool, **call_filter: Any) -> None:
    """Puts the calls of a period into new batches.

    For example after billing was switched on late. The events keep their ids, so a receiver can drop duplicates.
    """
    if since is None:
        raise click.UsageError("--since is needed: a date such as 2026-01-31, or an age such as 7d")
    calls = parse_call_filter(since=since, **call_filter)
    number = with_database(lambda database, _: _count_calls(database, calls))
    if dry_run:
        text = f"would send {pluralize(number, 'call')} again; nothing was changed"
        print_result(text, {"dry_run": True, "calls": number}, as_json=as_json)
        return
    if number and not yes:
        confirm_or_exit(f"send {pluralize(number, 'call')} again")
    with show_progress("calls sent again", number) as report:
        sent = with_database(lambda database, _: _resend_calls(database, calls, report))
    print_result(f"{pluralize(sent, 'call')} in the outbox", {"calls": sent}, as_json=as_json)


async def _count_calls(database: Any, calls: "UsageFilter") -> int:
    from accounting.billing.ledger_export import count_rows

    return await count_rows(database, calls)


async def _resend_calls(database: Any, calls: "UsageFilter", report_progress: ReportProgress) -> int:
    from accounting.billing.ledger_export import resend_rows

    return await resend_rows(database, calls, on_progress=report_progress)
