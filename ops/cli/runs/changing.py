"""Carrying out an order on runs: on each that was named, or, once people agree, on all that match."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import click

from ops.cli.output import moment, print_json
from ops.cli.progress import progress
from ops.cli.runs.asking import advised, who_asks
from ops.cli.runs.waking import waking
from ops.cli.session import with_database
from ops.cli.verdicts import printable
from workers.control.changed import Changed
from workers.control.effects import WouldRepeatError
from workers.control.errors import RefusedError, RunNotFoundError
from workers.control.many import Tally, to_each
from workers.control.replaying import ReplayOptions, check_replay
from workers.settings import Settings
from workers.store.matching import Matching
from workers.store.run import RunState
from workers.store.run_selection import Selection
from workers.store.run_store import RunStore

FIRST_LINES = 10
Change = Callable[[str], Awaitable[Changed]]


@dataclass(frozen=True, slots=True)
class Order:
    """`states`: of the runs that a filter without a state means. `wakes`: workers are told afterwards."""

    verb: str
    states: tuple[str, ...]
    wakes: bool = False
    replay: ReplayOptions = field(default_factory=ReplayOptions)


def change_named(order: Order, run_ids: Sequence[str], given: dict[str, Any]) -> bool:
    """Whether none was refused."""
    results = _named(order, run_ids)
    if not given["as_json"]:
        wanted = [each["run_id"] for each in results if isinstance(each, dict) and "done" in each and _asked(each)]
        if wanted:
            agreed = _named(replace(order, replay=replace(order.replay, repeat_done=True)), wanted)
            results = [agreed.pop(0) if _is_among(each, wanted) else each for each in results]
    if given["as_json"]:
        print_json([each.as_json() if isinstance(each, Changed) else each for each in results])
    for each in results:
        if not isinstance(each, Changed):
            click.echo(printable(f"unattended: {each['refused']}"), err=True)
        elif not given["as_json"]:
            click.echo(f"{each.run_id}: {each.said}")
    return all(isinstance(each, Changed) for each in results)


def _named(order: Order, run_ids: Sequence[str]) -> list[Changed | dict[str, Any]]:
    return with_database(lambda database, settings: _each_named(order, run_ids, database, settings), redis=order.wakes)


def _is_among(result: Changed | dict[str, Any], run_ids: Sequence[str]) -> bool:
    return isinstance(result, dict) and "done" in result and result["run_id"] in run_ids


def _asked(refused: dict[str, Any]) -> bool:
    """Asks on the terminal whether to go on all the same. Runs outside of an event loop, as below."""
    if not sys.stdin.isatty():
        return False
    for line in (*refused["done"], refused["about_keys"]):
        click.echo(printable(f"  {line}"), err=True)
    return click.confirm(f"replay {refused['run_id']}, though a replay does this again?", err=True)


async def _each_named(
    order: Order, run_ids: Sequence[str], database: Any, settings: Settings
) -> list[Changed | dict[str, Any]]:
    from workers.control.naming import whole_run_id

    results: list[Changed | dict[str, Any]] = []
    store = RunStore(database, republish_after_s=settings.republish_after_s)
    async with _change(order, store, settings) as change:
        for text in run_ids:
            try:
                results.append(await change(await whole_run_id(store, text)))
            except WouldRepeatError as error:
                done = {"done": [*error.effects.sentences()], "about_keys": error.effects.about_keys()}
                refused = f"{error}. {done['about_keys']} To replay it all the same say --yes"
                results.append({"run_id": error.run_id, "refused": refused, **done})
            except (RefusedError, RunNotFoundError) as error:
                results.append({"run_id": text, "refused": advised(error)})
    return results


def change_matching(order: Order, wanted: Matching, given: dict[str, Any]) -> bool:
    """Whether none was refused."""
    if not wanted.states:
        wanted = replace(wanted, states=tuple(RunState(state) for state in order.states))
    selection = Selection(wanted, given["limit"])
    number, first = with_database(lambda database, _: _found(selection, RunStore(database)))
    if given["dry_run"]:
        skipped = with_database(lambda database, _: _would_skip(order, selection, RunStore(database)))
        _preview(order, selection, number, first, skipped, as_json=given["as_json"])
        return True
    if number and not given["yes"]:
        _ask(order, selection, number, first)

    async def work(database: Any, settings: Settings) -> Tally:
        store = RunStore(database, republish_after_s=settings.republish_after_s)
        async with _change(order, store, settings) as change:
            return await to_each(store, selection, change, progress=lambda tally: told(tally.seen))

    try:
        with progress(order.verb, number) as told:
            tally = with_database(work, redis=order.wakes)
    except KeyboardInterrupt:
        click.echo("\nunattended: interrupted; the same command goes on where it stopped", err=True)
        raise
    _report(order, tally, as_json=given["as_json"])
    return tally.refused == tally.skipped == 0


async def _would_skip(order: Order, selection: Selection, store: RunStore) -> Tally:
    if order.verb != "replay":
        return Tally()
    return await to_each(
        store, selection, lambda run_id: check_replay(store, run_id, options=order.replay), progress=lambda _: None
    )


async def _found(selection: Selection, store: RunStore) -> tuple[int, list[dict[str, Any]]]:
    return await selection.count(store), list(await selection.first(store, FIRST_LINES))


def _ask(order: Order, selection: Selection, number: int, first: Sequence[dict[str, Any]]) -> None:
    """Outside of an event loop, which would keep Ctrl-C from the prompt."""
    what = f"{order.verb} {_runs(number)} ({selection.matching.as_words()})"
    if not sys.stdin.isatty():
        raise click.UsageError(f"nobody can be asked whether to {what}: say --yes, or look first with --dry-run")
    for line in _lines(first, number):
        click.echo(line, err=True)
    if order.verb == "replay" and not order.replay.repeat_done:
        click.echo("runs whose tools or write-backs succeeded are skipped; --repeat-done replays them too", err=True)
    if not click.confirm(f"{what}?", err=True):
        raise RefusedError("nothing was changed")


def _preview(
    order: Order,
    selection: Selection,
    number: int,
    first: Sequence[dict[str, Any]],
    skipped: Tally,
    *,
    as_json: bool,
) -> None:
    if as_json:
        known = {"skipped": skipped.skipped, "skipped_runs": skipped.done} if order.verb == "replay" else {}
        print_json({"dry_run": True, "matched": number, "first": [run["_id"] for run in first], **known})
        return
    for line in _lines(first, number):
        click.echo(line)
    for line in _skipped_lines(skipped, "would be skipped"):
        click.echo(line)
    click.echo(f"would {order.verb} {_runs(number)}: {selection.matching.as_words()}; nothing was changed")


def _lines(first: Sequence[dict[str, Any]], number: int) -> list[str]:
    lines = [
        printable(
            f"{run['_id']}  {run['app_id']}  {run['workflow']}  {run['trigger']['name']}  {run['state']}"
            f"  {(run.get('outcome') or {}).get('kind', '')}  {moment(run['created_at'])}"
        )
        for run in first
    ]
    return [*lines, f"… and {number - len(first)} more"] if number > len(first) else lines


def _report(order: Order, tally: Tally, *, as_json: bool) -> None:
    if as_json:
        print_json(tally.as_json())
        return
    already = f", {tally.already} already were" if tally.already else ""
    skipped = f", {tally.skipped} skipped" if tally.skipped else ""
    click.echo(f"{order.verb}: {tally.changed} done{already}{skipped}, {tally.refused} refused")
    for line in _skipped_lines(tally, "skipped"):
        click.echo(line, err=True)
    for each in tally.reasons:
        click.echo(printable(f"unattended: {each['reason']}"), err=True)
    if tally.refused > len(tally.reasons):
        click.echo(f"unattended: … and {tally.refused - len(tally.reasons)} more", err=True)


def _skipped_lines(tally: Tally, how: str) -> Iterator[str]:
    """Which runs a replay of many leaves out, and what they have done."""
    for each in tally.done:
        yield printable(f"{each['run_id']} {how}, since a replay does again: {'; '.join(each['done'])}")
    if tally.skipped > len(tally.done):
        yield f"… and {tally.skipped - len(tally.done)} more {how}"
    if tally.skipped:
        yield "to replay such runs too, say --repeat-done"


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


@asynccontextmanager
async def _change(order: Order, store: RunStore, settings: Settings) -> AsyncIterator[Change]:
    from workers.control.cancelling import cancel, discard
    from workers.control.replaying import replay
    from workers.control.retrying import retry_now

    by = who_asks()
    if not order.wakes:
        end = cancel if order.verb == "cancel" else discard
        yield lambda run_id: end(store, run_id, by=by)
        return
    async with waking(settings) as wake:
        if order.verb == "replay":
            yield lambda run_id: replay(store, wake, run_id, by=by, options=order.replay)
        else:
            yield lambda run_id: retry_now(store, wake, run_id, by=by)
