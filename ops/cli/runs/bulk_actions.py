"""Bulk actions on runs: on named runs, or, after confirmation, on all runs that match a filter."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import click

from ops.cli.confirmation import confirm_or_exit
from ops.cli.database_session import open_wakeups, with_database
from ops.cli.output import print_error, print_json
from ops.cli.progress import show_progress
from ops.cli.runs.run_options import operator_name, refusal_text
from ops.presenters.amounts import pluralize
from ops.presenters.printable_text import to_printable
from ops.presenters.times import format_moment
from workers.control.bulk_change import BulkResult, change_each
from workers.control.change_result import RefusedError, RunChange, RunNotFoundError
from workers.control.run_effects import WouldRepeatError
from workers.control.run_replay import ReplayOptions, check_replay
from workers.settings import Settings
from workers.store.run import RunState
from workers.store.run_filter import RunFilter
from workers.store.run_selection import Selection
from workers.store.run_store import RunStore

MAX_PREVIEW_LINES = 10
ChangeRun = Callable[[str], Awaitable[RunChange]]


@dataclass(frozen=True, slots=True)
class BulkAction:
    """A change of runs; `states` is the default of `--state` for its filters."""

    verb: str
    states: tuple[str, ...]
    needs_wakeups: bool = False
    replay: ReplayOptions = field(default_factory=ReplayOptions)


def change_named(action: BulkAction, run_ids: Sequence[str], options: dict[str, Any]) -> bool:
    """Apply the action to each run; return whether none was refused."""
    results = _apply_to_named(action, run_ids)
    if not options["as_json"]:
        confirmed = [
            result["run_id"]
            for result in results
            if isinstance(result, dict) and "done" in result and _confirm_repeat(result)
        ]
        if confirmed:
            repeated = _apply_to_named(replace(action, replay=replace(action.replay, repeat_done=True)), confirmed)
            results = [repeated.pop(0) if _is_among(result, confirmed) else result for result in results]
    if options["as_json"]:
        print_json([result.as_json() if isinstance(result, RunChange) else result for result in results])
    for result in results:
        if not isinstance(result, RunChange):
            print_error(result["refused"])
        elif not options["as_json"]:
            click.echo(f"{result.run_id}: {result.said}")
    return all(isinstance(result, RunChange) for result in results)


def _apply_to_named(action: BulkAction, run_ids: Sequence[str]) -> list[RunChange | dict[str, Any]]:
    return with_database(
        lambda database, settings: _apply_to_each(action, run_ids, database, settings), redis=action.needs_wakeups
    )


def _is_among(result: RunChange | dict[str, Any], run_ids: Sequence[str]) -> bool:
    return isinstance(result, dict) and "done" in result and result["run_id"] in run_ids


def _confirm_repeat(refusal: dict[str, Any]) -> bool:
    """Ask on the terminal whether to replay a run although it repeats effects."""
    if not sys.stdin.isatty():
        return False
    for line in (*refusal["done"], refusal["about_keys"]):
        click.echo(to_printable(f"  {line}"), err=True)
    return click.confirm(f"replay {refusal['run_id']}, although this happens again?", err=True)


async def _apply_to_each(
    action: BulkAction, run_ids: Sequence[str], database: Any, settings: Settings
) -> list[RunChange | dict[str, Any]]:
    from workers.control.run_ids import resolve_run_id

    results: list[RunChange | dict[str, Any]] = []
    store = RunStore(database, republish_after_s=settings.republish_after_s)
    async with _open_change(action, store, settings) as change:
        for text in run_ids:
            try:
                results.append(await change(await resolve_run_id(store, text)))
            except WouldRepeatError as error:
                effects = {"done": [*error.effects.sentences()], "about_keys": error.effects.about_keys()}
                refused = f"{error}. {effects['about_keys']} To replay it anyway, use --yes"
                results.append({"run_id": error.run_id, "refused": refused, **effects})
            except (RefusedError, RunNotFoundError) as error:
                results.append({"run_id": text, "refused": refusal_text(error)})
    return results


def change_matching(action: BulkAction, run_filter: RunFilter, options: dict[str, Any]) -> bool:
    """Apply the action to all matching runs, after confirmation; return whether none was refused."""
    if not run_filter.states:
        run_filter = replace(run_filter, states=tuple(RunState(state) for state in action.states))
    selection = Selection(run_filter, options["limit"])
    number, first = with_database(lambda database, _: _count_and_first(selection, RunStore(database)))
    if options["dry_run"]:
        skipped = with_database(lambda database, _: _count_skipped(action, selection, RunStore(database)))
        _print_preview(action, selection, number, first, skipped, as_json=options["as_json"])
        return True
    if number and not options["yes"]:
        _confirm(action, selection, number, first)

    async def work(database: Any, settings: Settings) -> BulkResult:
        store = RunStore(database, republish_after_s=settings.republish_after_s)
        async with _open_change(action, store, settings) as change:
            return await change_each(store, selection, change, on_progress=lambda tally: report(tally.total))

    try:
        with show_progress(action.verb, number) as report:
            tally = with_database(work, redis=action.needs_wakeups)
    except KeyboardInterrupt:
        click.echo("\nunattended: interrupted; repeat the command to continue", err=True)
        raise
    _print_tally(action, tally, as_json=options["as_json"])
    return tally.refused == tally.skipped == 0


async def _count_skipped(action: BulkAction, selection: Selection, store: RunStore) -> BulkResult:
    if action.verb != "replay":
        return BulkResult()
    return await change_each(
        store, selection, lambda run_id: check_replay(store, run_id, options=action.replay), on_progress=lambda _: None
    )


async def _count_and_first(selection: Selection, store: RunStore) -> tuple[int, list[dict[str, Any]]]:
    return await selection.count(store), list(await selection.first(store, MAX_PREVIEW_LINES))


def _confirm(action: BulkAction, selection: Selection, number: int, first: Sequence[dict[str, Any]]) -> None:
    lines = _run_lines(first, number)
    if action.verb == "replay" and not action.replay.repeat_done:
        lines.append("runs whose tools or write-backs succeeded are skipped; --repeat-done replays them too")
    confirm_or_exit(f"{action.verb} {pluralize(number, 'run')} ({selection.run_filter.describe()})", details=lines)


def _print_preview(
    action: BulkAction,
    selection: Selection,
    number: int,
    first: Sequence[dict[str, Any]],
    skipped: BulkResult,
    *,
    as_json: bool,
) -> None:
    if as_json:
        skips = {"skipped": skipped.skipped, "skipped_runs": skipped.done} if action.verb == "replay" else {}
        print_json({"dry_run": True, "matched": number, "first": [run["_id"] for run in first], **skips})
        return
    for line in _run_lines(first, number):
        click.echo(line)
    for line in _skipped_lines(skipped, "would be skipped"):
        click.echo(line)
    click.echo(
        f"would {action.verb} {pluralize(number, 'run')}: {selection.run_filter.describe()}; nothing was changed"
    )


def _run_lines(first: Sequence[dict[str, Any]], number: int) -> list[str]:
    lines = [
        to_printable(
            f"{run['_id']}  {run['app_id']}  {run['workflow']}  {run['trigger']['name']}  {run['state']}"
            f"  {(run.get('outcome') or {}).get('kind', '')}  {format_moment(run['created_at'])}"
        )
        for run in first
    ]
    return [*lines, f"… and {number - len(first)} more"] if number > len(first) else lines


def _print_tally(action: BulkAction, tally: BulkResult, *, as_json: bool) -> None:
    if as_json:
        print_json(tally.as_json())
        return
    already = f", {tally.already} already were" if tally.already else ""
    skipped = f", {tally.skipped} skipped" if tally.skipped else ""
    click.echo(f"{action.verb}: {tally.changed} done{already}{skipped}, {tally.refused} refused")
    for line in _skipped_lines(tally, "skipped"):
        click.echo(line, err=True)
    for refusal in tally.reasons:
        print_error(refusal["reason"])
    if tally.refused > len(tally.reasons):
        print_error(f"… and {tally.refused - len(tally.reasons)} more")


def _skipped_lines(tally: BulkResult, verb: str) -> Iterator[str]:
    """Yield the runs that a bulk replay leaves out, with the effects that it would repeat."""
    for skipped in tally.done:
        yield to_printable(f"{skipped['run_id']} {verb}, as a replay would repeat: {'; '.join(skipped['done'])}")
    if tally.skipped > len(tally.done):
        yield f"… and {tally.skipped - len(tally.done)} more {verb}"
    if tally.skipped:
        yield "to replay such runs too, use --repeat-done"


@asynccontextmanager
async def _open_change(action: BulkAction, store: RunStore, settings: Settings) -> AsyncIterator[ChangeRun]:
    from workers.control.run_cancellation import cancel, discard
    from workers.control.run_replay import replay
    from workers.control.run_retry import retry_now

    by = operator_name()
    if not action.needs_wakeups:
        end = cancel if action.verb == "cancel" else discard
        yield lambda run_id: end(store, run_id, by=by)
        return
    async with open_wakeups(settings) as wakeups:
        if action.verb == "replay":
            yield lambda run_id: replay(store, wakeups, run_id, by=by, options=action.replay)
        else:
            yield lambda run_id: retry_now(store, wakeups, run_id, by=by)
