"""`unattended budgets list` and `show`."""

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from ops.cli.budgets.asking import BUDGET_ID, unknown_budget
from ops.cli.command import command
from ops.cli.completing import apps, completed_by
from ops.cli.output import json_option, moment, print_json, print_table
from ops.cli.session import with_database
from ops.cli.verdicts import printable

if TYPE_CHECKING:
    from accounting.budgets.standing import Standing
    from accounting.budgets.store import KeptBudget
    from ops.cli.terminal import Terminal

FULLEST = 5


@command(
    "list",
    examples=["unattended budgets list", "unattended budgets list --app acme --json"],
    related=["budgets show", "usage"],
)
@click.option("--app", "app_id", shell_complete=completed_by(apps), help="Only those that this app's runs must fit in.")
@json_option
def list_budgets(app_id: str | None, as_json: bool) -> None:
    """Lists budgets, with what is spent of them now.

    Spent is what was spent in the window that goes on. A budget of each app (app:*) has a line for each app that has
    spent of it; on a terminal the five fullest.
    """

    async def work(database: Any, _settings: object) -> "Sequence[Standing]":
        from accounting.budgets.standing import standings

        return await standings(database, app_id)

    found = with_database(work)
    if as_json:
        print_json([each.as_json() for each in found])
        return
    if not found:
        click.echo(_nothing(app_id), err=True)
    if sys.stdout.isatty():
        from ops.cli.budgets.table import table_lines
        from ops.cli.terminal import terminal

        if found:
            shown = terminal()
            shown.print("\n".join(table_lines(found, shown, now=datetime.now(UTC), most=FULLEST)))
        return
    columns = ["budget_id", "for_app_id", "spent", "reserved", "limit", "share", "rejections", "window_end"]
    rows = [each.as_json() for each in found]
    print_table("Budgets", columns, [[_cell(row[name]) for name in columns] for row in rows])


def _nothing(app_id: str | None) -> str:
    whose = "" if app_id is None else f" that {printable(app_id)}'s runs must fit in"
    return f"there are no budgets{whose} yet; `unattended budgets set --help` shows how to make one"


@command("show", examples=["unattended budgets show app:acme/day/usd"], related=["budgets list", "budgets set"])
@BUDGET_ID
@json_option
def show_budget(budget_id: str, as_json: bool) -> None:
    """Tells what one budget limits, and how it stands."""

    async def work(database: Any, _settings: object) -> "tuple[KeptBudget | None, Sequence[Standing]]":
        from accounting.budgets.standing import standings
        from accounting.budgets.store import Budgets

        kept = await Budgets(database).find(budget_id)
        return kept, [each for each in await standings(database) if each.budget.id == budget_id]

    kept, found = with_database(work)
    if kept is None:
        raise unknown_budget(budget_id)
    if as_json:
        print_json({**kept.as_json(), "standings": [each.as_json() for each in found]})
        return
    from ops.cli.terminal import terminal

    shown = terminal()
    shown.print("\n".join(story_lines(kept, found, shown, now=datetime.now(UTC))))


def story_lines(kept: "KeptBudget", found: "Sequence[Standing]", shown: "Terminal", *, now: datetime) -> Iterator[str]:
    from ops.cli.budgets.words import consequence_words, limit_words

    budget = kept.budget
    yield shown.styled(budget.id, bold=True)
    yield limit_words(budget)
    yield consequence_words(budget)
    if budget.note:
        yield f"note: {printable(budget.note)}"
    yield f"set {moment(kept.updated_at)} UTC by {printable(kept.updated_by)}"
    if budget.is_for_each_app and found:
        from ops.cli.budgets.table import table_lines

        yield ""
        yield from table_lines(found, shown, now=now)
    else:
        for each in found:
            yield from _standing_lines(each, shown, now)


def _standing_lines(each: "Standing", shown: "Terminal", now: datetime) -> Iterator[str]:
    from accounting.budgets.budget import amount_in_words
    from ops.cli.amounts import whole
    from ops.cli.bars import bar, percent
    from ops.cli.budgets.table import MAX_BAR, colour_of, ends_in
    from ops.cli.budgets.words import usd_beside

    if each.start is None:  # of a window of run: each counts for itself
        if each.rejections_total:
            yield f"calls that were not made: {each.rejections_total:,} ever"
        return
    unit, limit = each.budget.unit, each.limit
    drawn = shown.styled(bar(each.share, MAX_BAR, unicode=shown.unicode), fg=colour_of(each))
    spent = whole(each.spent) if unit == "tokens" else usd_beside(each.spent, limit)
    yield ""
    yield f"{spent} of {amount_in_words(unit, limit)}, {percent(each.share)}  {drawn}".rstrip()
    if each.reserved:
        yield f"{amount_in_words(unit, each.reserved)} more are reserved for calls that are being made"
    if each.exhausted_since is not None:
        yield f"spent since {moment(each.exhausted_since)} UTC"
    if each.rejections_total:
        yield f"runs and calls held or refused: {each.rejections:,} in this window, {each.rejections_total:,} ever"
    if each.end is not None:
        yield f"the window ends {moment(each.end)} UTC, in {ends_in(each.end, now)}"


def _cell(value: Any) -> Any:
    return moment(value) if isinstance(value, datetime) else value
