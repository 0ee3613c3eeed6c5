"""`unattended billing replay`, `drop` and `resume`."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from ops.cli.billing.asking import agreed, counted, tell
from ops.cli.command import command
from ops.cli.completing import completed_by, stored
from ops.cli.output import json_option
from ops.cli.session import with_database

Command = Callable[..., Any]
_OPTIONS = (
    click.argument("batch_ids", metavar="[BATCH]...", nargs=-1, shell_complete=completed_by(stored("outbox", "state"))),
    click.option("--dead", "all_dead", is_flag=True, help="All dead batches."),
    click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing."),
    click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can be asked, as in scripts."),
    json_option,
)


@dataclass(frozen=True, slots=True)
class Order:
    """`states`: one of which a named batch must be in."""

    verb: str
    done: str
    states: Sequence[str]


def _takes_batches(command: Command) -> Command:
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
@_takes_batches
def replay(**given: Any) -> None:
    """Posts batches again, with the same ids.

    Named ones, or all that are dead. A receiver that has a batch already knows it by its id.
    """
    from accounting.billing.batches import replay as change
    from accounting.billing.outbox import STATES

    _carry_out(Order("replay", "go out again", STATES), change, **given)


@command(
    "drop",
    examples=["unattended billing drop 01JX2B5W8ZK4M7Q9T1V3Y6A8C0", "unattended billing drop --dead --dry-run"],
    related=["billing list", "billing resend"],
)
@_takes_batches
def drop(**given: Any) -> None:
    """Gives up batches that are not delivered.

    Named ones, or all that are dead. What they hold stays in the ledger; `unattended billing resend` brings it back in
    new batches.
    """
    from accounting.billing.batches import UNDELIVERED
    from accounting.billing.batches import drop as change

    _carry_out(Order("drop", "dropped", UNDELIVERED), change, **given)


def _carry_out(
    order: Order,
    change: Callable[[Any, Sequence[str] | None], Awaitable[int]],
    *,
    batch_ids: tuple[str, ...],
    all_dead: bool,
    as_json: bool,
    **given: bool,
) -> None:
    if bool(batch_ids) == all_dead:
        raise click.UsageError("name batches, or say --dead, not both" if batch_ids else "name batches, or say --dead")
    number = len(set(batch_ids)) if batch_ids else with_database(lambda database, _: _count_dead(database))
    if batch_ids:
        _refuse_unknown(order, batch_ids)
    if given["dry_run"]:
        words = f"would {order.verb} {counted(number, 'batch')}; nothing was changed"
        tell(words, {"dry_run": True, "matched": number}, as_json=as_json)
        return
    if all_dead and number and not given["yes"] and not agreed(f"{order.verb} {counted(number, 'batch')}"):
        raise SystemExit(1)
    changed = with_database(lambda database, _: change(database, batch_ids or None))
    tell(f"{counted(changed, 'batch')}: {order.done}", {"changed": changed}, as_json=as_json)


def _refuse_unknown(order: Order, batch_ids: Sequence[str]) -> None:
    from accounting.billing.batches import unknown

    if absent := with_database(lambda database, _: unknown(database, batch_ids, states=order.states)):
        click.echo(
            f"unattended: there is no batch {', '.join(absent)} to {order.verb}; `unattended billing list` shows them;"
            " nothing was changed",
            err=True,
        )
        raise SystemExit(1)


async def _count_dead(database: Any) -> int:
    from accounting.billing.outbox import outbox_state

    return (await outbox_state(database)).dead


@command("resume", examples=["unattended billing resume"], related=["billing status"])
@json_option
def resume(as_json: bool) -> None:
    """Lets batches go again to an endpoint that is left alone.

    One that answered 410, or that failed so often that it is being spared. Which one, UNATTENDED_BILLING_URL says;
    without it: every one.
    """
    from accounting.billing.endpoint import forget_troubles

    number = with_database(lambda database, settings: forget_troubles(database, settings.billing_url))
    tell("batches go to it again" if number else "nothing held them back", {"resumed": number}, as_json=as_json)
