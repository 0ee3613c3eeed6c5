"""`unattended triggers list`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from ops.cli.command import command
from ops.cli.completion import complete_with, find_apps, find_workflows
from ops.cli.output import format_moment, json_option, print_json, print_table
from ops.cli.triggers.trigger_options import with_triggers
from ops.presenters.skip_reasons import inactive_reason
from workers.embedded_services import NothingRunning
from workers.settings import load_settings
from workflows.package.trigger_specs.trigger_spec import SPEC_BY_TYPE

if TYPE_CHECKING:
    from triggers.control.trigger_entry import ControlContext
    from triggers.control.trigger_listing import TriggerFilter

STATES = ("active", "paused", "inactive")
DEFAULT_LIMIT = 1000
MAX_APPS_SHOWN = 5
_NOTHING_RUNNING_TEXT = (
    "nothing is running: these are the packages' triggers;"
    " what is paused, what was made at run time and what comes next is unknown"
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
    "--app", "app_id", shell_complete=complete_with(find_apps), help="Only those that start runs of this app."
)
@click.option("--workflow", shell_complete=complete_with(find_workflows), help="Only of this workflow.")
@click.option("--type", "type_", type=click.Choice(sorted(SPEC_BY_TYPE)), metavar="TYPE", help="Such as webhook.")
@click.option("--state", type=click.Choice(STATES), help="Only these.")
@click.option("--limit", default=DEFAULT_LIMIT, type=click.IntRange(min=1), help="So many at most.")
@json_option
def list_triggers(limit: int, as_json: bool, **options: Any) -> None:
    """Lists every trigger, when it fired last and what comes next.

    Those of the packages that are started, and those made at run time. Filters narrow each other.
    """
    rows = _find_triggers(options, limit)
    if len(rows) == limit == DEFAULT_LIMIT:
        click.echo(f"the first {limit} triggers; --limit shows more", err=True)
    if as_json:
        print_json(rows)
        return
    columns = ["trigger", "type", "apps", "state", "why", "last fired", "next"]
    print_table("Triggers", columns, [_trigger_cells(row) for row in rows], unfolded=("state", "last fired", "next"))
    if not rows:
        click.echo("no trigger matches" if any(options.values()) else "there are no triggers yet", err=True)


def _find_triggers(options: Mapping[str, Any], limit: int) -> list[dict[str, Any]]:
    from triggers.control.trigger_listing import TriggerFilter, iter_triggers

    kind = options["type_"]
    canonical = None if kind is None else str(SPEC_BY_TYPE[kind].model_fields["type"].default)
    wanted = TriggerFilter(options["app_id"], options["workflow"], canonical, options["state"])

    async def work(ground: "ControlContext") -> list[dict[str, Any]]:
        return [row async for row in iter_triggers(ground, wanted, limit=limit)]

    try:
        return with_triggers(work)
    except NothingRunning:
        click.echo(_NOTHING_RUNNING_TEXT, err=True)
        return _package_triggers(wanted)[:limit]


def _package_triggers(trigger_filter: "TriggerFilter") -> list[dict[str, Any]]:
    from triggers.control.trigger_listing import list_package_triggers
    from workflows.package.catalog import Catalog, package_directories

    settings = load_settings()
    return list_package_triggers(settings, Catalog(package_directories(settings.packages)).packages(), trigger_filter)


def _trigger_cells(row: Mapping[str, Any]) -> list[Any]:
    return [
        row["trigger_id"],
        row["type"],
        _apps_text(row),
        row["state"],
        _reason_text(row),
        format_moment(row["last_fired_at"]),
        "paused" if row["next_at"] and row["state"] == "paused" else format_moment(row["next_at"]),
    ]


def _apps_text(row: Mapping[str, Any]) -> str:
    if row["apps_from"] is not None:
        return f"from the {row['apps_from']}"
    apps = row["apps"]
    more = f" and {len(apps) - MAX_APPS_SHOWN} more" if len(apps) > MAX_APPS_SHOWN else ""
    return ", ".join(apps[:MAX_APPS_SHOWN]) + more


def _reason_text(row: Mapping[str, Any]) -> str:
    paused = row["paused"] or next(iter(row["paused_apps"].values()), None)
    if row["state"] == "paused":
        return str(paused["note"] or f"by {paused['by']}") if paused else ""
    some = f"paused for {len(row['paused_apps'])} of its apps" if row["paused_apps"] else ""
    return inactive_reason(row) or some
