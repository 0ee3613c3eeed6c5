"""`unattended usage`: tokens and cost by app, workflow, model, agent, provider, trigger or time."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from ops.cli.command import command
from ops.cli.completion import complete_with, find_apps, find_workflows
from ops.cli.database_session import with_database
from ops.cli.exit_codes import EXIT_FAILURE
from ops.cli.output import json_option, print_json, print_table
from ops.cli.parameters import MOMENT
from ops.cli.progress import show_progress
from ops.cli.usage.usage_report import FIELDS, GroupByType, UsageReport, field_names, make_usage_report, sum_totals
from ops.presenters.amounts import format_exact_usd, pluralize

if TYPE_CHECKING:
    from pymongo.asynchronous.database import AsyncDatabase

    from accounting.totals.totals_rebuild import Difference
    from accounting.totals.usage_query import UsageFilter

    Database = AsyncDatabase[dict[str, Any]]

_FILTER_FIELDS = ("app_id", "workflow", "agent", "model", "provider", "trigger_type", "since", "until")


@command(
    "usage",
    examples=[
        "unattended usage --since 30d",
        "unattended usage --by day --app acme --since 7d",
        "unattended usage --by app,model --csv > usage.csv",
        "unattended usage --verify",
    ],
    related=["budgets list", "billing export"],
)
@click.option("--app", "app_id", shell_complete=complete_with(find_apps), help="Only this app.")
@click.option("--workflow", shell_complete=complete_with(find_workflows), help="Only this workflow.")
@click.option("--agent", help="Only this agent.")
@click.option("--model", help="Only this model.")
@click.option("--provider", help="Only this provider.")
@click.option("--trigger", "trigger_type", metavar="TYPE", help="Only runs of this trigger type, such as webhook.")
@click.option("--since", type=MOMENT, help="From this age (7d, 12h) or date (2026-01-31). Default: all time.")
@click.option("--until", type=MOMENT, help="Before this age or date.")
@click.option(
    "--by",
    type=GroupByType(),
    default="app",
    show_default=True,
    help=f"Group by {', '.join(FIELDS)}; several with commas: app,model.",
)
@click.option(
    "--sort", type=click.Choice(["cost", "tokens", "name"]), help="Default: cost; days and hours in order of time."
)
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number of lines; of days and hours the newest.")
@click.option("--chart/--no-chart", default=None, help="Whether to draw bars. Default: on a terminal only.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with the field names of --json.")
@json_option
@click.option("--verify", is_flag=True, help="Compare the totals with the ledger; exit code 1 if they differ.")
@click.option("--rebuild", is_flag=True, help="Rebuild the totals from the ledger. Safe at any time.")
@click.pass_context
def usage(context: click.Context, /, *, verify: bool, rebuild: bool, as_json: bool, **options: Any) -> None:
    """Shows tokens and USD by app, workflow, model or time.

    Summed from the ledger, which has one row per model call.
    """
    if verify or rebuild:
        _require_alone(context)
        (rebuild_totals if rebuild else verify_totals)(as_json=as_json)
        return
    if as_json and options["as_csv"]:
        raise click.UsageError("use --json or --csv, not both")
    _print_usage(options, _parse_usage_filter(options), as_json=as_json)


def _require_alone(context: click.Context) -> None:
    """Refuse filters beside --verify or --rebuild, which apply to all totals."""
    default = click.core.ParameterSource.DEFAULT
    names = {name for name in context.params if context.get_parameter_source(name) not in (None, default)}
    if names - {"verify", "as_json"} and names - {"rebuild", "as_json"}:
        raise click.UsageError("--verify and --rebuild apply to all totals; only --json may stand beside one of them")


def _parse_usage_filter(options: Mapping[str, Any]) -> "UsageFilter":
    from accounting.totals.usage_query import UsageFilter

    usage_filter = UsageFilter(
        **{name: options[name] for name in _FILTER_FIELDS if name != "trigger_type"},
        trigger_type=_canonical_trigger_type(options["trigger_type"]),
    )
    since, until = usage_filter.since, usage_filter.until
    if since is not None and until is not None and since >= until:
        raise click.UsageError("--since must be before --until; no call can match")
    return usage_filter


def _canonical_trigger_type(name: str | None) -> str | None:
    """Accept every name that packages accept, such as cron for schedule."""
    if name is None:
        return None
    from workflows.package.trigger_specs.trigger_spec import SPEC_BY_TYPE, canonical_type

    return canonical_type(name) if name in SPEC_BY_TYPE else name


def _print_usage(options: Mapping[str, Any], usage_filter: "UsageFilter", *, as_json: bool) -> None:
    from accounting.totals.usage_query import EVERYTHING, usage_totals

    keys = field_names(options["by"])
    found = with_database(lambda database, _: usage_totals(database, keys, usage_filter))
    report = make_usage_report(found, options["by"], sort=options["sort"], limit=options["limit"])
    if as_json:
        print_json([row.as_json() for row in report.rows])
    elif options["as_csv"]:
        _print_csv(report)
    elif options["chart"] or sys.stdout.isatty():
        _print_chart(report, usage_filter, chart=options["chart"] is not False)
    else:
        _print_plain(report)
    if as_json or options["as_csv"]:
        return
    if not found:
        text = "there are no model calls yet" if usage_filter == EVERYTHING else "no model call matches"
        hint = "" if usage_filter.trigger_type is None else "; `unattended usage --by trigger` lists the types"
        click.echo(f"{text}{hint}", err=True)
    from ops.cli.usage.usage_table import usage_warnings

    for warning in usage_warnings(sum_totals(found)):
        click.echo(warning, err=True)


def _print_csv(report: UsageReport) -> None:
    from accounting.infra.csv_lines import format_csv_lines
    from accounting.usage import UsageTotals

    names = [*field_names(report.names), *UsageTotals().as_json()]
    click.echo("".join(format_csv_lines(names, (row.as_json() for row in report.rows))), nl=False)


def _print_chart(report: UsageReport, usage_filter: "UsageFilter", *, chart: bool) -> None:
    from ops.cli.output import current_terminal
    from ops.cli.usage.usage_table import usage_table_lines, usage_title

    if not report.rows:
        return
    terminal = current_terminal()
    title = terminal.style(usage_title(report, usage_filter, chart=chart), italic=True)
    terminal.print("\n".join([title, *usage_table_lines(report, terminal, chart=chart)]))


def _print_plain(report: UsageReport) -> None:
    columns = ["calls", "input", "cached", "output", "missing", "USD"]
    rows = [
        [
            *(row.key[name] for name in field_names(report.names)),
            *(row.calls, row.input_tokens, row.cached_input_tokens, row.output_tokens, row.missing),
            format_exact_usd(row.cost_usd),
        ]
        for row in report.rows
    ]
    print_table("Usage", [*report.names, *columns], rows)


def verify_totals(*, as_json: bool) -> None:
    from accounting.totals.totals_rebuild import find_differences

    async def work(database: "Database", _settings: object) -> "Sequence[Difference]":
        return await find_differences(database, report)

    with show_progress("hours verified") as report:
        found = with_database(work)
    if as_json:
        print_json([asdict(difference) for difference in found])
    elif found:
        rows = [[_format_hour(row.hour), _format_labels(row.labels), row.field, row.right, row.kept] for row in found]
        print_table("Differences", ["hour", "of", "field", "ledger", "totals"], rows)
    else:
        click.echo("the totals match the ledger")
    if found:
        number = pluralize(len(found), "difference")
        click.echo(f"{number}; `unattended usage --rebuild` rebuilds the totals from the ledger", err=True)
        raise SystemExit(EXIT_FAILURE)


def rebuild_totals(*, as_json: bool) -> None:
    from accounting.totals.totals_rebuild import rebuild

    async def work(database: "Database", _settings: object) -> int:
        return await rebuild(database, report)

    with show_progress("hours rebuilt") as report:
        changed = with_database(work)
    if as_json:
        print_json({"changed": changed})
        return
    click.echo(f"rebuilt: {pluralize(changed, 'document')} changed" if changed else "rebuilt: nothing has changed")


def _format_hour(hour: datetime | None) -> str:
    return "all time" if hour is None else f"{hour:%Y-%m-%d %H:00} UTC"


def _format_labels(labels: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in labels.items())
