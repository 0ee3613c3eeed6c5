"""`unattended billing resend`: what the ledger holds of a time, in new batches."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from ops.cli.billing.asking import agreed, counted, tell
from ops.cli.billing.whose import wanted, whose_calls
from ops.cli.command import command
from ops.cli.output import json_option
from ops.cli.progress import Told, progress
from ops.cli.session import with_database

if TYPE_CHECKING:
    from accounting.billing.exporting import Wanted


@command(
    "resend",
    examples=[
        "unattended billing resend --since 2026-01-31 --dry-run",
        "unattended billing resend --since 7d --app acme --yes",
    ],
    related=["billing status", "billing export"],
)
@whose_calls
@click.option("--dry-run", is_flag=True, help="Say how many calls, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can be asked, as in scripts.")
@json_option
def resend(since: datetime | None, dry_run: bool, yes: bool, as_json: bool, **whose: Any) -> None:
    """Puts the calls of a time into new batches.

    As after billing was switched on late. Their events have the ids that they always have: a receiver drops what it
    knows.
    """
    if since is None:
        raise click.UsageError("say from when on: --since 2026-01-31, or an age such as 7d")
    calls = wanted(since=since, **whose)
    number = with_database(lambda database, _: _count(database, calls))
    if dry_run:
        words = f"would send {counted(number, 'call')} again; nothing was changed"
        tell(words, {"dry_run": True, "calls": number}, as_json=as_json)
        return
    if number and not yes and not agreed(f"send {counted(number, 'call')} again"):
        raise SystemExit(1)
    with progress("calls sent again", number) as told:
        sent = with_database(lambda database, _: _resend(database, calls, told))
    tell(f"{counted(sent, 'call')} in the outbox", {"calls": sent}, as_json=as_json)


async def _count(database: Any, calls: "Wanted") -> int:
    from accounting.billing.exporting import count_rows

    return await count_rows(database, calls)


async def _resend(database: Any, calls: "Wanted", told: Told) -> int:
    from accounting.billing.resending import resend as put_into_outbox

    return await put_into_outbox(database, calls, told=told)
