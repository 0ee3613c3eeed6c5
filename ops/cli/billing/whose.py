"""Which calls of the ledger are meant."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from ops.cli.completing import apps, completed_by, workflows
from ops.cli.runs.asking import MOMENT

if TYPE_CHECKING:
    from accounting.billing.exporting import Wanted

Command = Callable[..., Any]
_WHOSE = (
    click.option("--app", "app_id", shell_complete=completed_by(apps), help="Only this app's."),
    click.option("--workflow", shell_complete=completed_by(workflows), help="Only of this workflow."),
    click.option("--since", type=MOMENT, help="Calls that began since: a date (2026-01-31) or an age (7d, 12h)."),
    click.option("--until", type=MOMENT, help="Calls that began before: a date or an age."),
)


def whose_calls(command: Command) -> Command:
    for option in reversed(_WHOSE):
        command = option(command)
    return command


def wanted(*, app_id: str | None, workflow: str | None, since: datetime | None, until: datetime | None) -> "Wanted":
    from accounting.billing.exporting import Wanted

    if since is not None and until is not None and since >= until:
        raise click.UsageError("--since is not before --until, so that no call can match")
    return Wanted(app_id, workflow, since, until)
