"""`unattended triggers list`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from ops.cli.command import command
from ops.cli.completion import complete_with, find_apps, find_workflows
from ops.cli.output import json_option, print_json, print_table
from ops.cli.triggers.trigger_options import with_triggers
from ops.presenters.skip_reasons import inactive_reason
from ops.presenters.times import format_moment
from ops.presenters.trigger_lines import apps_text, state_reason
from workers.embedded_services import NothingRunning
from workers.settings import load_settings
from workflows.package.trigger_specs.trigger_spec import SPEC_BY_TYPE, canonical_type

if TYPE_CHECKING:
    from triggers.control.trigger_entry import ControlContext
    from triggers.control.trigger_lists import TriggerFilter

STATES = ("active", "paused", "inactive")
DEFAULT_LIMIT = 1000
MAX_APPS_SHOWN = 5
_NOTHING_RUNNING_TEXT = (
    "no database is running, so these are the packages' triggers only;"
    " pauses, triggers created at run time and next times are unknown"
)


@command(
    "list",
    examples=[
        "unattended triggers list",
        "unattended triggers list --type webhook --state paused",
        "unattended triggers list --app acme --json",
    ],
    related=["triggers show", "triggers create"],
)
@click.option(
    "--app", "app_id", shell_complete=complete_with(find_apps), help="Only triggers that start runs of this app."
)
@click.option("--workflow", shell_complete=complete_with(find_workflows), help="Only triggers of this workflow.")
@click.option(
    "--type",
    "type_",
    type=click.Choice(sorted(SPEC_BY_TYPE)),
    metavar="TYPE",
    help="Only triggers of this type, such as webhook.",
)
@click.option("--state", type=click.Choice(STATES), help="Only triggers in this state.")
@click.option("--limit", default=DEFAULT_LIMIT, type=click.IntRange(min=1), help="Maximum number of triggers.")
@json_option
def list_triggers(limit: int, as_json: bool, **options: Any) -> None:
    """Lists triggers, when each fired last and what comes next.

    Triggers of started packages, and those created at run time. Several filters must all match.
    """
    rows = _find_triggers(options, limit)
    if len(rows) == limit == DEFAULT_LIMIT:
        click.echo(f"the first {limit} triggers; --limit shows more", err=True)
    if as_json:
        print_json(rows)
        return
    columns = ["trigger", "type", "apps", "state", "reason", "last fired", "next"]
    print_table("Triggers", columns, [_trigger_cells(row) for row in rows], unfolded=("state", "last fired", "next"))
    if not rows:
        click.echo("no trigger matches" if any(options.values()) else "there are no triggers yet", err=True)


def _find_triggers(options: Mapping[str, Any], limit: int) -> list[dict[str, Any]]:
    from triggers.control.trigger_lists import TriggerFilter, iter_triggers

    kind = options["type_"]
    type_ = None if kind is None else canonical_type(kind)
    trigger_filter = TriggerFilter(options["app_id"], options["workflow"], type_, options["state"])

    async def work(context: "ControlContext") -> list[dict[str, Any]]:
        return [row async for row in iter_triggers(context, trigger_filter, limit=limit)]

    try:
        return with_triggers(work)
    except NothingRunning:
        click.echo(_NOTHING_RUNNING_TEXT, err=True)
        return _package_triggers(trigger_filter)[:limit]


def _package_triggers(trigger_filter: "TriggerFilter") -> list[dict[str, Any]]:
    from triggers.control.trigger_lists import list_package_triggers
    from workflows.package.catalog import Catalog, package_directories

    settings = load_settings()
    return list_package_triggers(settings, Catalog(package_directories(settings.packages)).packages(), trigger_filter)


def _trigger_cells(row: Mapping[str, Any]) -> list[Any]:
    # An empty cell if it has no app, as a text in a pipe would read as the name of one.
    apps = apps_text(row, max_apps=MAX_APPS_SHOWN) if row["apps"] or row["apps_from"] else ""
    return [
        row["trigger_id"],
        row["type"],
        apps,
        row["state"],
        state_reason(row, inactive=inactive_reason(row)),
        format_moment(row["last_fired_at"]),
        "paused" if row["next_at"] and row["state"] == "paused" else format_moment(row["next_at"]),
    ]
