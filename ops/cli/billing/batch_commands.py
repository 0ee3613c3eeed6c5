"""`unattended billing replay`, `drop` and `resume`."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from ops.cli.command import add_options, command
from ops.cli.completion import complete_with, find_ids
from ops.cli.confirmation import confirm_or_exit, dry_run_option, print_result, yes_option
from ops.cli.database_session import with_database
from ops.cli.output import exit_with_error, json_option
from ops.presenters.amounts import pluralize

_batch_options = add_options(
    click.argument(
        "batch_ids", metavar="[BATCH]...", nargs=-1, shell_complete=complete_with(find_ids("outbox", "state"))
    ),
    click.option("--dead", "all_dead", is_flag=True, help="All dead batches."),
    dry_run_option,
    yes_option,
    json_option,
)


@dataclass(frozen=True, slots=True)
class BatchAction:
    """A change of batches; a named batch must be in one of `states`."""

    verb: str
    result_text: str
    states: Sequence[str]


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

    Posts the named batches, or all dead ones. A receiver recognizes a batch that it already has by its id.
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
    """Gives up undelivered batches.

    Drops the named batches, or all dead ones. Their calls stay in the ledger; `unattended billing resend` puts them
    into new batches.
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
        raise click.UsageError("name batches or use --dead, not both" if batch_ids else "name batches, or use --dead")
    number = len(set(batch_ids)) if batch_ids else with_database(lambda database, _: _count_dead(database))
    if batch_ids:
        _refuse_unknown(action, batch_ids)
    if flags["dry_run"]:
        text = f"would {action.verb} {pluralize(number, 'batch')}; nothing was changed"
        print_result(text, {"dry_run": True, "matched": number}, as_json=as_json)
        return
    if all_dead and number and not flags["yes"]:
        confirm_or_exit(f"{action.verb} {pluralize(number, 'batch')}")
    changed = with_database(lambda database, _: change(database, batch_ids or None))
    print_result(f"{pluralize(changed, 'batch')}: {action.result_text}", {"changed": changed}, as_json=as_json)


def _refuse_unknown(action: BatchAction, batch_ids: Sequence[str]) -> None:
    from accounting.billing.outbox_batches import find_unknown_ids

    if unknown := with_database(lambda database, _: find_unknown_ids(database, batch_ids, states=action.states)):
        exit_with_error(
            f"there is no batch {', '.join(unknown)} to {action.verb}; `unattended billing list` lists the batches;"
            " nothing was changed"
        )


async def _count_dead(database: Any) -> int:
    from accounting.billing.outbox import read_outbox_state

    return (await read_outbox_state(database)).dead


@command("resume", examples=["unattended billing resume"], related=["billing status"])
@json_option
def resume(as_json: bool) -> None:
    """Resumes delivery to an endpoint that was paused.

    An endpoint is paused after an answer 410, or while it backs off after many failures. Resumes the endpoint of
    UNATTENDED_BILLING_URL; without that setting, all of them.
    """
    from accounting.billing.endpoint_health import forget_failures

    number = with_database(lambda database, settings: forget_failures(database, settings.billing_url))
    text = "delivery is resumed" if number else "no endpoint was paused"
    print_result(text, {"resumed": number}, as_json=as_json)
