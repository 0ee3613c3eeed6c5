"""`unattended runs cancel`, `discard`, `replay` and `retry-now`: of runs that are named, or of all that match."""

from collections.abc import Callable
from typing import Any

import click

from ops.cli.output import json_option
from ops.cli.runs.asking import SAID_NO, filter_options, matching, refusals_in_one_line
from ops.cli.runs.changing import Order, change_matching, change_named
from workers.store.matching import Matching

Command = Callable[..., Any]

_RUN_IDS = click.argument("run_ids", metavar="[RUN_ID]...", nargs=-1)
_MANY = (
    click.option("--all", "everything", is_flag=True, help="All runs that can take it, without a filter."),
    click.option("--limit", type=click.IntRange(min=1), help="So many at most, the oldest first."),
    click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing."),
    click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can be asked, as in scripts."),
)


def _takes_runs(command: Command) -> Command:
    for option in reversed(_MANY):
        command = option(command)
    return _RUN_IDS(filter_options(json_option(command)))


@click.command("cancel")
@_takes_runs
def cancel(run_ids: tuple[str, ...], **given: Any) -> None:
    """Ends runs: one that waits at once, one that is worked on with its worker's next heartbeat.

    Name runs, or use filters; these mean queued and running runs and those that wait for a person, unless --state
    says otherwise.
    """
    _carry_out(Order("cancel", states=("queued", "running", "needs_human")), run_ids, given)


@click.command("discard")
@_takes_runs
def discard(run_ids: tuple[str, ...], **given: Any) -> None:
    """Gives up runs that are at rest; they become cancelled.

    Name runs, or use filters; these mean parked runs, unless --state says otherwise.
    """
    _carry_out(Order("discard", states=("parked",)), run_ids, given)


@click.command("replay")
@_takes_runs
@click.option("--again", is_flag=True, help="One more, though it was replayed before.")
def replay(run_ids: tuple[str, ...], again: bool, **given: Any) -> None:
    """Starts runs anew, each as a new run with the same input. Repeating the command starts nothing twice.

    Name runs, or use filters; these mean parked and failed runs, unless --state says otherwise.
    """
    _carry_out(Order("replay", states=("parked", "failed"), wakes=True, again=again), run_ids, given)


@click.command("retry-now")
@_takes_runs
def retry_now(run_ids: tuple[str, ...], **given: Any) -> None:
    """Makes runs due that wait for their next attempt.

    Name runs, or use filters; these mean queued runs.
    """
    _carry_out(Order("retry-now", states=("queued",), wakes=True), run_ids, given)


def _carry_out(order: Order, run_ids: tuple[str, ...], given: dict[str, Any]) -> None:
    wanted = matching(given)
    filtered = given["everything"] or wanted != Matching()
    if bool(run_ids) == filtered:
        raise click.UsageError(
            "name runs, or give filters, not both"
            if run_ids
            else "name runs, give a filter such as --app, or say --all"
        )
    if run_ids and (given["dry_run"] or given["limit"]):
        raise click.UsageError("--dry-run and --limit go with filters")
    with refusals_in_one_line():
        done = change_named(order, run_ids, given) if run_ids else change_matching(order, wanted, given)
    raise SystemExit(0 if done else SAID_NO)
