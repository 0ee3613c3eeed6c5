"""Which calls of the ledger are meant."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from ops.cli.completion import complete_with, find_apps, find_workflows
from ops.cli.runs.run_options import MOMENT

if TYPE_CHECKING:
    from accounting.totals.usage_query import UsageFilter

CommandFunction = Callable[..., Any]
_CALL_OPTIONS = (
    click.option("--app", "app_id", shell_complete=complete_with(find_apps), help="Only this app's."),
    click.option("--workflow", shell_complete=complete_with(find_workflows), help="Only of this workflow."),
    click.option("--since", type=MOMENT, help="Calls that began since: a date (2026-01-31) or an age (7d, 12h)."),
    click.option("--until", type=MOMENT, help="Calls that began before: a date or an age."),
)


def call_options(command: CommandFunction) -> CommandFunction:
    for option in reversed(_CALL_OPTIONS):
        command = option(command)
    return command


def parse_call_filter(
    *, app_id: str | None, workflow: str | None, since: datetime | None, until: datetime | None
) -> "UsageFilter":
    from accounting.totals.usage_query import UsageFilter

    if since is not None and until is not None and since >= until:
        raise click.UsageError("--since is not before --until, so that no call can match")
    return UsageFilter(app_id=app_id, workflow=workflow, since=since, until=until)
