"""`unattended triggers backfill`: starts the runs of a schedule for past times."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from ops.cli.command import command
from ops.cli.confirmation import confirm_or_exit, dry_run_option, yes_option
from ops.cli.output import json_option, print_json
from ops.cli.parameters import MOMENT
from ops.cli.progress import show_progress
from ops.cli.runs.run_options import operator_name
from ops.cli.triggers.trigger_options import APP_OPTION, NAME_ARGUMENT, exit_on_refusal, with_acceptance
from ops.presenters.amounts import pluralize
from ops.presenters.times import format_utc

if TYPE_CHECKING:
    from triggers.role_context import RoleContext
    from triggers.schedule.schedule_backfill import BackfillPlan

MAX_PREVIEW_TIMES = 10


@command(
    "backfill",
    examples=[
        "unattended triggers backfill weekday-morning --from 2026-01-05 --to 2026-01-09 --dry-run",
        "unattended triggers backfill DailyDigest/weekday-morning --app acme --from 3d --to 1h --yes",
    ],
    related=["triggers show", "runs replay"],
)
@NAME_ARGUMENT
@click.option(
    "--from", "start", type=MOMENT, required=True, help="First time: a date, a time with offset, or an age (7d)."
)
@click.option("--to", "end", type=MOMENT, required=True, help="Last time, written likewise; both are included.")
@APP_OPTION
@click.option(
    "--overlap",
    type=click.Choice(["one_by_one", "allow"]),
    default="one_by_one",
    help="Whether runs of one app may overlap.",
)
@dry_run_option
@yes_option
@json_option
def backfill(name: str, app_id: str | None, as_json: bool, **options: Any) -> None:
    """Starts the runs of a schedule for past times.

    One run for each time of the schedule from --from to --to, as if it had been a tick. A time that has its run gets no
    second one, so the command may be repeated.
    """
    with exit_on_refusal():
        plan = with_acceptance(lambda context: _make_plan(context, name, app_id, options["start"], options["end"]))
        nothing = "" if plan.new_runs else _nothing_text(plan, options["start"], options["end"])
        if options["dry_run"]:
            _print_preview(plan, nothing, as_json=as_json)
            return
        if not (nothing or options["yes"]):
            confirm_or_exit(f"start {_describe_plan(plan)}", details=_time_lines(plan))
        created, existing = (0, plan.there_already) if nothing else _start_runs(plan, options["overlap"])
    if as_json:
        print_json({"trigger_id": plan.trigger.id, "created": created, "there_already": existing})
    else:
        click.echo(nothing or f"{pluralize(created, 'run')} started, {existing} existed already")


async def _make_plan(
    context: "RoleContext", name: str, app_id: str | None, start: datetime, end: datetime
) -> "BackfillPlan":
    from triggers.control.backfill_control import prepare_backfill
    from triggers.control.trigger_names import find_trigger

    trigger = await find_trigger(context, name, app_id=app_id)
    return await prepare_backfill(context, trigger, start=start, end=end, app_id=app_id)


def _start_runs(plan: "BackfillPlan", overlap: Any) -> tuple[int, int]:
    """Start the runs; return how many were created, and how many existed already."""
    from triggers.control.backfill_control import run_backfill

    with show_progress("backfill", plan.runs) as report:
        result = with_acceptance(
            lambda context: run_backfill(context, plan, by=operator_name(), overlap=overlap, on_progress=report)
        )
    return result.created, result.there_already


def _nothing_text(plan: "BackfillPlan", start: datetime, end: datetime) -> str:
    span = f"nothing to backfill between {format_utc(start.astimezone(UTC))} and {format_utc(end.astimezone(UTC))}"
    if not plan.times:
        return f"{span}: the schedule has no time in that range{' so far' if end > datetime.now(UTC) else ''}"
    times = len(plan.times)
    return f"{span}: {'its only time has its run' if times == 1 else f'all {times} times have their runs'}"


def _print_preview(plan: "BackfillPlan", nothing_text: str, *, as_json: bool) -> None:
    from triggers.control.backfill_control import backfill_json

    if as_json:
        print_json({"dry_run": True, **backfill_json(plan)})
        return
    if nothing_text:
        click.echo(nothing_text)
        return
    for line in _time_lines(plan):
        click.echo(line)
    click.echo(f"would start {_describe_plan(plan)}; nothing was changed")


def _time_lines(plan: "BackfillPlan") -> list[str]:
    hidden = len(plan.times) - MAX_PREVIEW_TIMES
    return [*map(format_utc, plan.times[:MAX_PREVIEW_TIMES]), *([f"… and {hidden} more times"] if hidden > 0 else [])]


def _describe_plan(plan: "BackfillPlan") -> str:
    existing = f", {plan.there_already} more exist already" if plan.there_already else ""
    apps = pluralize(len(plan.apps), "app")
    return f"{pluralize(plan.new_runs, 'run')} of {plan.trigger.id}, for {apps}{existing}"
