"""`unattended runs cancel`, `discard`, `replay` and `retry-now`: of runs that are named, or of all that match."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from ops.cli.command import command
from ops.cli.completing import completed_by, runs
from ops.cli.output import json_option
from ops.cli.runs.asking import SAID_NO, filter_options, matching, refusals_in_one_line
from ops.cli.runs.changing import Order, change_matching, change_named
from workers.control.replaying import ReplayOptions
from workers.store.matching import Matching

Command = Callable[..., Any]

CANCEL = Order("cancel", states=("queued", "running", "needs_human"))
DISCARD = Order("discard", states=("parked",))
REPLAY = Order("replay", states=("parked", "failed"), wakes=True)
RETRY_NOW = Order("retry-now", states=("queued",), wakes=True)
_MANY = (
    click.option("--all", "everything", is_flag=True, help="All runs that can take it, without a filter."),
    click.option("--limit", type=click.IntRange(min=1), help="So many at most, the oldest first."),
    click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing."),
    click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can be asked, as in scripts."),
)


def _takes_runs(order: Order) -> Callable[[Command], Command]:
    run_ids = click.argument(
        "run_ids", metavar="[RUN_ID]...", nargs=-1, shell_complete=completed_by(runs(*order.states))
    )

    def decorate(command: Command) -> Command:
        for option in reversed(_MANY):
            command = option(command)
        return run_ids(filter_options(json_option(command)))

    return decorate


@command(
    "cancel",
    examples=[
        "unattended runs cancel 8C0A2F",
        "unattended runs cancel --app acme --state queued --dry-run",
        "unattended runs cancel --workflow DailyDigest --yes",
    ],
    related=["runs list", "runs discard"],
)
@_takes_runs(CANCEL)
def cancel(run_ids: tuple[str, ...], **given: Any) -> None:
    """Ends runs that wait or are being worked on.

    One that waits ends at once, one that is worked on with its worker's next heartbeat. Name runs, or use filters;
    these mean queued and running runs and those that wait for a person, unless --state says otherwise.
    """
    _carry_out(CANCEL, run_ids, given)


@command(
    "discard",
    examples=["unattended runs discard 8C0A2F", "unattended runs discard --app acme --until 30d --dry-run"],
    related=["runs list", "runs replay"],
)
@_takes_runs(DISCARD)
def discard(run_ids: tuple[str, ...], **given: Any) -> None:
    """Gives up runs that are at rest; they become cancelled.

    Name runs, or use filters; these mean parked runs, unless --state says otherwise.
    """
    _carry_out(DISCARD, run_ids, given)


@command(
    "replay",
    examples=[
        "unattended runs replay 8C0A2F",
        "unattended runs replay --workflow DailyDigest --state failed --since 2h --dry-run",
        "unattended runs replay --all --limit 100 --yes",
        "unattended runs replay 8C0A2F --repeat-done --new-keys",
    ],
    related=["runs list", "runs retry-now"],
)
@_takes_runs(REPLAY)
@click.option("--again", is_flag=True, help="One more, though it was replayed before.")
@click.option("--repeat-done", is_flag=True, help="Also runs whose tools or write-backs succeeded: they happen again.")
@click.option("--new-keys", is_flag=True, help="Give tools new idempotency keys, not those of a run that failed.")
def replay(run_ids: tuple[str, ...], again: bool, repeat_done: bool, new_keys: bool, **given: Any) -> None:
    """Starts runs anew, each as a new run with the same input.

    Repeating the command starts nothing twice. Name runs, or use filters; these mean parked and failed runs, unless
    --state says otherwise.

    A replay begins with the first turn. Where tools or write-backs of a run have succeeded, a replay does them again:
    they are listed, and you are asked (--yes, where nobody can be). With filters such runs are skipped and named,
    unless --repeat-done is given.
    """
    repeat_done = repeat_done or (bool(run_ids) and given["yes"])
    options = ReplayOptions(again=again, repeat_done=repeat_done, new_keys=new_keys)
    _carry_out(replace(REPLAY, replay=options), run_ids, given)


@command(
    "retry-now",
    examples=["unattended runs retry-now 8C0A2F", "unattended runs retry-now --workflow DailyDigest --yes"],
    related=["runs list", "runs replay"],
)
@_takes_runs(RETRY_NOW)
def retry_now(run_ids: tuple[str, ...], **given: Any) -> None:
    """Makes runs due that wait for their next attempt.

    Name runs, or use filters; these mean queued runs.
    """
    _carry_out(RETRY_NOW, run_ids, given)


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
