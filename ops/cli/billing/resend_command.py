"""`unattended billing resend`: what the ledger holds of a time, in new batches."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from ops.cli.billing.call_options import call_options, parse_call_filter
from ops.cli.command import command
from ops.cli.confirmation import confirm, pluralize, print_result
from ops.cli.output import json_option
from ops.cli.progress import ReportProgress, show_progress
from ops.cli.session import with_database

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
@click.option("--dry-run", is_flag=True, help="Say how many calls, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can be asked, as in scripts.")
@json_option
def resend(since: datetime | None, dry_run: bool, yes: bool, as_json: bool, **call_filter: Any) -> None:
    """Puts the calls of a time into new batches.

    As after billing was switched on late. Their events have the ids that they always have: a receiver drops what it
    knows.
    """
    if since is None:
        raise click.UsageError("say from when on: --since 2026-01-31, or an age such as 7d")
    calls = parse_call_filter(since=since, **call_filter)
    number = with_database(lambda database, _: _count_calls(database, calls))
    if dry_run:
        words = f"would send {pluralize(number, 'call')} again; nothing was changed"
        print_result(words, {"dry_run": True, "calls": number}, as_json=as_json)
        return
    if number and not yes and not confirm(f"send {pluralize(number, 'call')} again"):
        raise SystemExit(1)
    with show_progress("calls sent again", number) as told:
        sent = with_database(lambda database, _: _resend_calls(database, calls, told))
    print_result(f"{pluralize(sent, 'call')} in the outbox", {"calls": sent}, as_json=as_json)


async def _count_calls(database: Any, calls: "UsageFilter") -> int:
    from accounting.billing.ledger_export import count_rows

    return await count_rows(database, calls)


async def _resend_calls(database: Any, calls: "UsageFilter", report_progress: ReportProgress) -> int:
    from accounting.billing.ledger_export import resend_rows as put_into_outbox

    return await put_into_outbox(database, calls, on_progress=report_progress)
