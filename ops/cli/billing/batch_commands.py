"""`unattended billing replay`, `drop` and `resume`."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from ops.cli.command import command
from ops.cli.completion import complete_with, find_ids
from ops.cli.confirmation import confirm, pluralize, print_result
from ops.cli.output import json_option
from ops.cli.session import with_database

CommandFunction = Callable[..., Any]
_OPTIONS = (
    click.argument(
        "batch_ids", metavar="[BATCH]...", nargs=-1, shell_complete=complete_with(find_ids("outbox", "state"))
    ),
    click.option("--dead", "all_dead", is_flag=True, help="All dead batches."),
    click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing."),
    click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can be asked, as in scripts."),
    json_option,
)


@dataclass(frozen=True, slots=True)
class BatchAction:
    """`states`: one of which a named batch must be in."""

    verb: str
    result_text: str
    states: Sequence[str]


def _batch_options(command: CommandFunction) -> CommandFunction:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@command(
    "replay",
    examples=[
        "unattended billing replay 01JX2B5W8ZK4M7Q9T1V3Y6A8C0",
        "unattended billing replay --dead --dry-run",
        "unattended billing replay --dead --yes",
    ],
    related=["billing list", "billing drop"],
)
@_batch_options
def replay(**options: Any) -> None:
    """Posts batches again, with the same ids.

    Named ones, or all that are dead. A receiver that has a batch already knows it by its id.
    """
    from accounting.billing.outbox import STATES
    from accounting.billing.outbox_batches import replay_batches as change

    _run_action(BatchAction("replay", "go out again", STATES), change, **options)


@command(
    "drop",
    examples=["unattended billing drop 01JX2B5W8ZK4M7Q9T1V3Y6A8C0", "unattended billing drop --dead --dry-run"],
    related=["billing list", "billing resend"],
)
@_batch_options
def drop(**options: Any) -> None:
    """Gives up batches that are not delivered.

    Named ones, or all that are dead. What they hold stays in the ledger; `unattended billing resend` brings it back in
    new batches.
    """
    from accounting.billing.outbox_batches import UNDELIVERED
    from accounting.billing.outbox_batches import drop_batches as change

    _run_action(BatchAction("drop", "dropped", UNDELIVERED), change, **options)


def _run_action(
    action: BatchAction,
    change: Callable[[Any, Sequence[str] | None], Awaitable[int]],
    *,
    batch_ids: tuple[str, ...],
    all_dead: bool,
    as_json: bool,
    **flags: bool,
) -> None:
    if bool(batch_ids) == all_dead:
        raise click.UsageError("name batches, or say --dead, not both" if batch_ids else "name batches, or say --dead")
    number = len(set(batch_ids)) if batch_ids else with_database(lambda database, _: _count_dead(database))
    if batch_ids:
        _refuse_unknown(action, batch_ids)
    if flags["dry_run"]:
        words = f"would {action.verb} {pluralize(number, 'batch')}; nothing was changed"
        print_result(words, {"dry_run": True, "matched": number}, as_json=as_json)
        return
    if all_dead and number and not flags["yes"] and not confirm(f"{action.verb} {pluralize(number, 'batch')}"):
        raise SystemExit(1)
    changed = with_database(lambda database, _: change(database, batch_ids or None))
    print_result(f"{pluralize(changed, 'batch')}: {action.result_text}", {"changed": changed}, as_json=as_json)


def _refuse_unknown(action: BatchAction, batch_ids: Sequence[str]) -> None:
    from accounting.billing.outbox_batches import find_unknown_ids

    if absent := with_database(lambda database, _: find_unknown_ids(database, batch_ids, states=action.states)):
        click.echo(
            f"unattended: there is no batch {', '.join(absent)} to {action.verb}; `unattended billing list` shows them;"
            " nothing was changed",
            err=True,
        )
        raise SystemExit(1)


async def _count_dead(database: Any) -> int:
    from accounting.billing.outbox import read_outbox_state

    return (await read_outbox_state(database)).dead


@command("resume", examples=["unattended billing resume"], related=["billing status"])
@json_option
def resume(as_json: bool) -> None:
    """Lets batches go again to an endpoint that is left alone.

    One that answered 410, or that failed so often that it is being spared. Which one, UNATTENDED_BILLING_URL says;
    without it: every one.
    """
    from accounting.billing.endpoint_health import forget_failures

    number = with_database(lambda database, settings: forget_failures(database, settings.billing_url))
    print_result("batches go to it again" if number else "nothing held them back", {"resumed": number}, as_json=as_json)
