"""`unattended runs cancel`, `discard`, `replay` and `retry-now`, of named or of matching runs."""

from dataclasses import replace
from typing import Any

import click

from ops.cli.command import OptionDecorator, add_options, command
from ops.cli.completion import complete_with, find_runs
from ops.cli.confirmation import dry_run_option, yes_option
from ops.cli.exit_codes import EXIT_FAILURE
from ops.cli.output import json_option
from ops.cli.runs.bulk_actions import BulkAction, change_matching, change_named
from ops.cli.runs.run_options import exit_on_refusal, filter_options, parse_run_filter
from workers.control.run_replay import ReplayOptions
from workers.store.run_filter import RunFilter

CANCEL = BulkAction("cancel", states=("queued", "running", "needs_human"))
DISCARD = BulkAction("discard", states=("parked",))
REPLAY = BulkAction("replay", states=("parked", "failed"), needs_wakeups=True)
RETRY_NOW = BulkAction("retry-now", states=("queued",), needs_wakeups=True)


def _run_arguments(action: BulkAction) -> OptionDecorator:
    return add_options(
        click.argument(
            "run_ids", metavar="[RUN_ID]...", nargs=-1, shell_complete=complete_with(find_runs(*action.states))
        ),
        filter_options,
        json_option,
        click.option("--all", "everything", is_flag=True, help="All runs in a suitable state, without a filter."),
        click.option("--limit", type=click.IntRange(min=1), help="Maximum number of runs, the oldest first."),
        dry_run_option,
        yes_option,
    )


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
    """Cancels queued, running or waiting runs.

    A queued or waiting run ends at once, a running one with its worker's next heartbeat. Name runs, or use filters:
    without --state they select runs that are queued, running, or waiting for a person.
    """
    _run_action(CANCEL, run_ids, options)


@command(
    "discard",
    examples=["unattended runs discard 8C0A2F", "unattended runs discard --app acme --until 30d --dry-run"],
    related=["runs list", "runs replay"],
)
@_run_arguments(DISCARD)
def discard(run_ids: tuple[str, ...], **options: Any) -> None:
    """Gives up runs at rest; they become cancelled.

    Name runs, or use filters: without --state they select parked runs.
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
@click.option("--again", is_flag=True, help="Replay also runs that were replayed before.")
@click.option(
    "--repeat-done", is_flag=True, help="Replay also runs whose tools or write-backs succeeded: they run again."
)
@click.option("--new-keys", is_flag=True, help="Give tools new idempotency keys instead of those of the failed run.")
def replay(run_ids: tuple[str, ...], again: bool, repeat_done: bool, new_keys: bool, **flags: Any) -> None:
    """Starts a new run with the same input, for each run.

    Repeating the command starts no run twice. Name runs, or use filters: without --state they select parked and failed
    runs.

    A replay begins with the first turn, and repeats tool calls and write-backs that already succeeded. For a named run
    the command lists them and asks for confirmation (in scripts: --yes). Filters skip and list such runs, unless
    --repeat-done is given.
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
    """Starts the next attempt of waiting runs now.

    Name runs, or use filters: they select queued runs.
    """
    _run_action(RETRY_NOW, run_ids, options)


def _run_action(action: BulkAction, run_ids: tuple[str, ...], options: dict[str, Any]) -> None:
    run_filter = parse_run_filter(options)
    is_filtered = options["everything"] or run_filter != RunFilter()
    if bool(run_ids) == is_filtered:
        raise click.UsageError(
            "name runs or use filters, not both" if run_ids else "name runs, use a filter such as --app, or use --all"
        )
    if run_ids and (options["dry_run"] or options["limit"]):
        raise click.UsageError("--dry-run and --limit need a filter instead of named runs")
    with exit_on_refusal():
        is_done = change_named(action, run_ids, options) if run_ids else change_matching(action, run_filter, options)
    raise SystemExit(0 if is_done else EXIT_FAILURE)
