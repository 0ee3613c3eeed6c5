"""`unattended triggers backfill`: the runs of a schedule for times that have passed."""

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from ops.cli.command import command
from ops.cli.output import json_option, print_json
from ops.cli.progress import show_progress
from ops.cli.runs.run_options import MOMENT, operator_name
from ops.cli.triggers.trigger_options import APP_OPTION, NAME_ARGUMENT, exit_on_refusal, with_acceptance
from ops.presenters.times import format_utc
from workers.control.errors import RefusedError

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
@click.option("--from", "start", type=MOMENT, required=True, help="A date, a time with its offset, or an age (7d).")
@click.option("--to", "end", type=MOMENT, required=True, help="Likewise; both are included.")
@APP_OPTION
@click.option(
    "--overlap",
    type=click.Choice(["one_by_one", "allow"]),
    default="one_by_one",
    help="Whether the runs of one app may go on side by side.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be started, and start nothing.")
@click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can be asked, as in scripts.")
@json_option
def backfill(name: str, app_id: str | None, as_json: bool, **options: Any) -> None:
    """Starts the runs of a schedule for times that have passed.

    For its times from --from to --to, as if each had been a tick. What has run at its time is not run again, so that
    the same command may be repeated.
    """
    with exit_on_refusal():
        planned = with_acceptance(lambda ground: _make_plan(ground, name, app_id, options["start"], options["end"]))
        nothing = "" if planned.new_runs else _nothing_text(planned, options["start"], options["end"])
        if options["dry_run"]:
            _print_preview(planned, nothing, as_json=as_json)
            return
        if not (nothing or options["yes"]):
            _confirm(planned)
        created, there = (0, planned.there_already) if nothing else _start_runs(planned, options["overlap"])
    if as_json:
        print_json({"trigger_id": planned.trigger.id, "created": created, "there_already": there})
    else:
        click.echo(nothing or f"{_count_runs(created)} started, {there} were there already")


async def _make_plan(
    ground: "RoleContext", name: str, app_id: str | None, start: datetime, end: datetime
) -> "BackfillPlan":
    from triggers.control.backfill_control import prepare_backfill
    from triggers.control.trigger_names import find_trigger

    return await prepare_backfill(
        ground, await find_trigger(ground, name, app_id=app_id), start=start, end=end, app_id=app_id
    )


def _start_runs(plan: "BackfillPlan", overlap: Any) -> tuple[int, int]:
    """How many were made, and were there already."""
    from triggers.control.backfill_control import run_backfill

    with show_progress("backfill", plan.runs) as told:
        done = with_acceptance(
            lambda ground: run_backfill(ground, plan, by=operator_name(), overlap=overlap, on_progress=told)
        )
    return done.created, done.there_already


def _nothing_text(plan: "BackfillPlan", start: datetime, end: datetime) -> str:
    span = f"nothing to backfill between {format_utc(start.astimezone(UTC))} and {format_utc(end.astimezone(UTC))}"
    if not plan.times:
        return f"{span}: no times in that range{' so far' if end > datetime.now(UTC) else ''}"
    times = len(plan.times)
    return f"{span}: {'its one time has its run' if times == 1 else f'all {times} times have their runs'}"


def _print_preview(plan: "BackfillPlan", nothing_text: str, *, as_json: bool) -> None:
    from triggers.control.backfill_control import backfill_json as plan_as_json

    if as_json:
        print_json({"dry_run": True, **plan_as_json(plan)})
        return
    if nothing_text:
        click.echo(nothing_text)
        return
    for line in _time_lines(plan):
        click.echo(line)
    click.echo(f"would start {_describe_plan(plan)}; nothing was changed")


def _confirm(plan: "BackfillPlan") -> None:
    """Outside of an event loop, which would keep Ctrl-C from the prompt."""
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"nobody can be asked whether to start {_describe_plan(plan)}: say --yes, or look first with --dry-run"
        )
    for line in _time_lines(plan):
        click.echo(line, err=True)
    if not click.confirm(f"start {_describe_plan(plan)}?", err=True):
        raise RefusedError("nothing was changed")


def _time_lines(plan: "BackfillPlan") -> list[str]:
    more = len(plan.times) - MAX_PREVIEW_TIMES
    return [*map(format_utc, plan.times[:MAX_PREVIEW_TIMES]), *([f"… and {more} more times"] if more > 0 else [])]


def _describe_plan(plan: "BackfillPlan") -> str:
    apps = "1 app" if len(plan.apps) == 1 else f"{len(plan.apps)} apps"
    there = f", {plan.there_already} more are there already" if plan.there_already else ""
    return f"{_count_runs(plan.new_runs)} of {plan.trigger.id}, for {apps}{there}"


def _count_runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"
