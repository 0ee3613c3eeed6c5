"""Commands that look into the store: runs and usage."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import click

from ops.cli.output import json_option, moment, print_json, print_table, usd
from ops.cli.session import with_database
from ops.cli.turn_lines import failure_lines, turn_lines
from ops.one_run.report import turn_report
from workers.run import RunState
from workflows.package.trigger_specs import parse_duration

BY = {"app": "app_id", "workflow": "workflow", "model": "model", "agent": "agent", "day": "day"}


@click.group()
def runs() -> None:
    """What ran, what runs, and what came of it."""


@runs.command("list")
@click.option("--app", "app_id")
@click.option("--workflow")
@click.option("--state", type=click.Choice([state.value for state in RunState]))
@click.option("--limit", default=1000, show_default=True, type=click.IntRange(min=1))
@json_option
def list_runs(as_json: bool, **wanted: Any) -> None:
    """Newest first."""
    from workers.run_document import as_json as run_as_json
    from workers.run_store import RunStore

    found = with_database(lambda database, _: RunStore(database).list(**wanted))
    if as_json:
        print_json([run_as_json(run) for run in found])
        return
    print_table(
        "Runs",
        ["run", "app", "workflow", "trigger", "state", "outcome", "turns", "created"],
        [
            [
                run["_id"],
                run["app_id"],
                run["workflow"],
                run["trigger"]["name"],
                run["state"],
                (run["outcome"] or {}).get("kind"),
                run["turn"],
                moment(run["created_at"]),
            ]
            for run in found
        ],
    )


@runs.command("show")
@click.argument("run_id")
@json_option
def show_run(run_id: str, as_json: bool) -> None:
    """One run: its turns, what it changed, what it cost."""
    story = with_database(lambda database, _: _story(database, run_id))
    if story is None:
        raise SystemExit(_not_found(run_id))
    if as_json:
        print_json(story)
        return
    for line in story_lines(story):
        click.echo(line)


def story_lines(story: Mapping[str, Any]) -> Iterator[str]:
    outcome = story["outcome"] or {}
    yield f"{story['run_id']}  {story['workflow']} for {story['app_id']}, by {story['trigger']['name']}"
    yield f"state {story['state']}, outcome {outcome.get('kind') or 'none yet'}: {outcome.get('reason', '')}"
    for turn in story["turns"]:
        report = turn_report(turn)
        yield ""
        yield from (line for _, line in (*turn_lines(turn["number"], report), *failure_lines(report.errors)))
    if story["errors"]:  # of what belongs to no turn: one that was not kept, or the end of the run
        yield ""
        yield from (line for _, line in failure_lines(story["errors"]))
    cost = story["usage"]
    yield ""
    yield (
        f"{cost['calls']} model calls, {cost['input_tokens']} tokens in, {cost['output_tokens']} out, "
        f"USD {usd(cost['cost_usd'])}"
    )


def _not_found(run_id: str) -> int:
    click.echo(f"unattended: there is no run {run_id}; `unattended runs list` shows them", err=True)
    return 1


async def _story(database: Any, run_id: str) -> dict[str, Any] | None:
    from accounting.totals import run_totals
    from workers.run_document import as_json as run_as_json
    from workers.run_store import RunStore

    store = RunStore(database)
    run = await store.find(run_id)
    if run is None:
        return None
    turns = await store.committed_turns(run_id, up_to=run["turn"])
    totals = await run_totals(database, run_id)
    shown = [{name: value for name, value in turn.items() if name not in {"_id", "token"}} for turn in turns]
    return {**run_as_json(run), "turns": shown, "usage": totals.as_json()}


@click.command()
@click.option("--app", "app_id", help="Only this app.")
@click.option("--by", type=click.Choice(list(BY)), default="app", show_default=True)
@click.option("--since", help="A date (2026-01-31) or an age (7d, 12h). Default: all time.")
@json_option
def usage(app_id: str | None, by: str, since: str | None, as_json: bool) -> None:
    """Tokens and USD, summed from the ledger."""
    from accounting.totals import usage_totals

    start = _since(since)
    rows = with_database(lambda database, _: usage_totals(database, [BY[by]], app_id=app_id, since=start))
    if as_json:
        print_json([row.as_json() for row in rows])
        return
    print_table(
        "Usage",
        [by, "calls", "input", "cached", "output", "missing", "USD"],
        [
            [
                row.key[BY[by]],
                row.calls,
                row.input_tokens,
                row.cached_input_tokens,
                row.output_tokens,
                row.missing,
                usd(row.cost_usd),
            ]
            for row in rows
        ],
    )
    unpriced = sum(row.unpriced for row in rows)
    if unpriced:
        click.echo(f"{unpriced} calls have no price and are not in the sums; add prices to the models file", err=True)


def _since(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return datetime.now(UTC) - parse_duration(text)
    except ValueError:
        pass
    try:
        day = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter("write a date such as 2026-01-31 or an age such as 7d", param_hint="--since") from None
    return day if day.tzinfo else day.replace(tzinfo=UTC)
