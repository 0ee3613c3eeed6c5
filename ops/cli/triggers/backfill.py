"""`unattended triggers backfill`: the runs of a schedule for times that have passed."""

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from ops.cli.command import command
from ops.cli.output import json_option, print_json
from ops.cli.progress import progress
from ops.cli.runs.asking import MOMENT, who_asks
from ops.cli.runs.lines import clock
from ops.cli.triggers.asking import APP, NAME, refusals_in_one_line, with_acceptance
from workers.control.errors import RefusedError

if TYPE_CHECKING:
    from triggers.role import TriggerGround
    from triggers.schedule.backfill import BackfillPlan

FIRST_TIMES = 10


@command(
    "backfill",
    examples=[
        "unattended triggers backfill weekday-morning --from 2026-01-05 --to 2026-01-09 --dry-run",
        "unattended triggers backfill DailyDigest/weekday-morning --app acme --from 3d --to 1h --yes",
    ],
    related=["triggers show", "runs replay"],
)
@NAME
@click.option("--from", "start", type=MOMENT, required=True, help="A date, a time with its offset, or an age (7d).")
@click.option("--to", "end", type=MOMENT, required=True, help="Likewise; both are included.")
@APP
@click.option(
    "--overlap",
    type=click.Choice(["one_by_one", "allow"]),
    default="one_by_one",
    help="Whether the runs of one app may go on side by side.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be started, and start nothing.")
@click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can be asked, as in scripts.")
@json_option
def backfill(name: str, app_id: str | None, as_json: bool, **given: Any) -> None:
    """Starts the runs of a schedule for times that have passed.

    For its times from --from to --to, as if each had been a tick. What has run at its time is not run again, so that
    the same command may be repeated.
    """
    with refusals_in_one_line():
        planned = with_acceptance(lambda ground: _plan(ground, name, app_id, given["start"], given["end"]))
        nothing = "" if planned.new else _nothing(planned, given["start"], given["end"])
        if given["dry_run"]:
            _preview(planned, nothing, as_json=as_json)
            return
        if not (nothing or given["yes"]):
            _ask(planned)
        created, there = (0, planned.there_already) if nothing else _carry_out(planned, given["overlap"])
    if as_json:
        print_json({"trigger_id": planned.trigger.id, "created": created, "there_already": there})
    else:
        click.echo(nothing or f"{_runs(created)} started, {there} were there already")


async def _plan(
    ground: "TriggerGround", name: str, app_id: str | None, start: datetime, end: datetime
) -> "BackfillPlan":
    from triggers.control.backfilling import plan
    from triggers.control.naming import find

    return await plan(ground, await find(ground, name, app_id=app_id), start=start, end=end, app_id=app_id)


def _carry_out(planned: "BackfillPlan", overlap: Any) -> tuple[int, int]:
    """How many were made, and were there already."""
    from triggers.control.backfilling import carry_out

    with progress("backfill", planned.runs) as told:
        done = with_acceptance(lambda ground: carry_out(ground, planned, by=who_asks(), overlap=overlap, told=told))
    return done.created, done.there_already


def _nothing(planned: "BackfillPlan", start: datetime, end: datetime) -> str:
    span = f"nothing to backfill between {clock(start.astimezone(UTC))} and {clock(end.astimezone(UTC))}"
    if not planned.times:
        return f"{span}: no times in that range{' so far' if end > datetime.now(UTC) else ''}"
    times = len(planned.times)
    return f"{span}: {'its one time has its run' if times == 1 else f'all {times} times have their runs'}"


def _preview(planned: "BackfillPlan", nothing: str, *, as_json: bool) -> None:
    from triggers.control.backfilling import as_json as plan_as_json

    if as_json:
        print_json({"dry_run": True, **plan_as_json(planned)})
        return
    if nothing:
        click.echo(nothing)
        return
    for line in _lines(planned):
        click.echo(line)
    click.echo(f"would start {_what(planned)}; nothing was changed")


def _ask(planned: "BackfillPlan") -> None:
    """Outside of an event loop, which would keep Ctrl-C from the prompt."""
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"nobody can be asked whether to start {_what(planned)}: say --yes, or look first with --dry-run"
        )
    for line in _lines(planned):
        click.echo(line, err=True)
    if not click.confirm(f"start {_what(planned)}?", err=True):
        raise RefusedError("nothing was changed")


def _lines(planned: "BackfillPlan") -> list[str]:
    more = len(planned.times) - FIRST_TIMES
    return [*map(clock, planned.times[:FIRST_TIMES]), *([f"… and {more} more times"] if more > 0 else [])]


def _what(planned: "BackfillPlan") -> str:
    apps = "1 app" if len(planned.apps) == 1 else f"{len(planned.apps)} apps"
    there = f", {planned.there_already} more are there already" if planned.there_already else ""
    return f"{_runs(planned.new)} of {planned.trigger.id}, for {apps}{there}"


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"
