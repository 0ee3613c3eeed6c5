"""`unattended runs cancel`, `discard`, `replay` and `retry-now`: of runs that are named, or of all that match."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from ops.cli.command import command
from ops.cli.completion import complete_with, find_runs
from ops.cli.output import json_option
from ops.cli.runs.bulk_actions import BulkAction, change_matching, change_named
from ops.cli.runs.run_options import EXIT_FAILURE, exit_on_refusal, filter_options, parse_run_filter
from workers.control.replaying import ReplayOptions
from workers.store.matching import Matching

CommandFunction = Callable[..., Any]

CANCEL = BulkAction("cancel", states=("queued", "running", "needs_human"))
DISCARD = BulkAction("discard", states=("parked",))
REPLAY = BulkAction("replay", states=("parked", "failed"), needs_wakeups=True)
RETRY_NOW = BulkAction("retry-now", states=("queued",), needs_wakeups=True)
_BULK_OPTIONS = (
    click.option("--all", "everything", is_flag=True, help="All runs that can take it, without a filter."),
    click.option("--limit", type=click.IntRange(min=1), help="So many at most, the oldest first."),
    click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing."),
    click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can be asked, as in scripts."),
)


def _run_arguments(action: BulkAction) -> Callable[[CommandFunction], CommandFunction]:
    run_ids = click.argument(
        "run_ids", metavar="[RUN_ID]...", nargs=-1, shell_complete=complete_with(find_runs(*action.states))
    )

    def decorate(command: CommandFunction) -> CommandFunction:
        for option in reversed(_BULK_OPTIONS):
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
@_run_arguments(CANCEL)
def cancel(run_ids: tuple[str, ...], **options: Any) -> None:
    """Ends runs that wait or are being worked on.

    One that waits ends at once, one that is worked on with its worker's next heartbeat. Name runs, or use filters;
    these mean queued and running runs and those that wait for a person, unless --state says otherwise.
    """
    _run_action(CANCEL, run_ids, options)


@command(
    "discard",
    examples=["unattended runs discard 8C0A2F", "unattended runs discard --app acme --until 30d --dry-run"],
    related=["runs list", "runs replay"],
)
@_run_arguments(DISCARD)
def discard(run_ids: tuple[str, ...], **options: Any) -> None:
    """Gives up runs that are at rest; they become cancelled.

    Name runs, or use filters; these mean parked runs, unless --state says otherwise.
    """
    _run_action(DISCARD, run_ids, options)


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
@_run_arguments(REPLAY)
@click.option("--again", is_flag=True, help="One more, though it was replayed before.")
@click.option("--repeat-done", is_flag=True, help="Also runs whose tools or write-backs succeeded: they happen again.")
@click.option("--new-keys", is_flag=True, help="Give tools new idempotency keys, not those of a run that failed.")
def replay(run_ids: tuple[str, ...], again: bool, repeat_done: bool, new_keys: bool, **flags: Any) -> None:
    """Starts runs anew, each as a new run with the same input.

    Repeating the command starts nothing twice. Name runs, or use filters; these mean parked and failed runs, unless
    --state says otherwise.

    A replay begins with the first turn. Where tools or write-backs of a run have succeeded, a replay does them again:
    they are listed, and you are asked (--yes, where nobody can be). With filters such runs are skipped and named,
    unless --repeat-done is given.
    """
    repeat_done = repeat_done or (bool(run_ids) and flags["yes"])
    options = ReplayOptions(again=again, repeat_done=repeat_done, new_keys=new_keys)
    _run_action(replace(REPLAY, replay=options), run_ids, flags)


@command(
    "retry-now",
    examples=["unattended runs retry-now 8C0A2F", "unattended runs retry-now --workflow DailyDigest --yes"],
    related=["runs list", "runs replay"],
)
@_run_arguments(RETRY_NOW)
def retry_now(run_ids: tuple[str, ...], **options: Any) -> None:
    """Makes runs due that wait for their next attempt.

    Name runs, or use filters; these mean queued runs.
    """
    _run_action(RETRY_NOW, run_ids, options)


def _run_action(action: BulkAction, run_ids: tuple[str, ...], options: dict[str, Any]) -> None:
    wanted = parse_run_filter(options)
    filtered = options["everything"] or wanted != Matching()
    if bool(run_ids) == filtered:
        raise click.UsageError(
            "name runs, or give filters, not both"
            if run_ids
            else "name runs, give a filter such as --app, or say --all"
        )
    if run_ids and (options["dry_run"] or options["limit"]):
        raise click.UsageError("--dry-run and --limit go with filters")
    with exit_on_refusal():
        done = change_named(action, run_ids, options) if run_ids else change_matching(action, wanted, options)
    raise SystemExit(0 if done else EXIT_FAILURE)
