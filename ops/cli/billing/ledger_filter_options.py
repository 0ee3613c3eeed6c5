"""Options that select calls of the ledger."""

from datetime import datetime
from typing import TYPE_CHECKING

import click

from ops.cli.command import add_options
from ops.cli.completion import complete_with, find_apps, find_workflows
from ops.cli.parameters import MOMENT

if TYPE_CHECKING:
    from accounting.totals.usage_query import UsageFilter

call_options = add_options(
    click.option("--app", "app_id", shell_complete=complete_with(find_apps), help="Only calls of this app."),
    click.option("--workflow", shell_complete=complete_with(find_workflows), help="Only calls of this workflow."),
    click.option("--since", type=MOMENT, help="Calls that began at or after: a date (2026-01-31) or an age (7d, 12h)."),
    click.option("--until", type=MOMENT, help="Calls that began before: a date or an age."),
)


def parse_call_filter(
    *, app_id: str | None, workflow: str | None, since: datetime | None, until: datetime | None
) -> "UsageFilter":
    from accounting.totals.usage_query import UsageFilter

    if since is not None and until is not None and since >= until:
        raise click.UsageError("--since must be before --until; no call can match")
    return UsageFilter(app_id=app_id, workflow=workflow, since=since, until=until)
