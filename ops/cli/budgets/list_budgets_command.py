"""`unattended budgets list` and `show`."""

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from ops.cli.command import command
from ops.cli.completion import complete_with, find_apps
from ops.cli.output import format_moment, json_option, print_json, print_table
from ops.cli.session import with_database
from ops.presenters.printable_text import to_printable

EXIT_FAILURE = 1

BUDGET_ID_ARGUMENT = click.argument("budget_id", metavar="ID")


def unknown_budget_exit(budget_id: str) -> SystemExit:
    from ops.presenters.printable_text import to_printable

    said = f"there is no budget {to_printable(budget_id)}; `unattended budgets list` shows them"
    click.echo(f"unattended: {said}", err=True)
    return SystemExit(EXIT_FAILURE)


if TYPE_CHECKING:
    from accounting.budgets.budget_status import BudgetStatus
    from accounting.budgets.budget_store import StoredBudget
    from ops.cli.output import Terminal

MAX_APPS = 5


@command(
    "list",
    examples=["unattended budgets list", "unattended budgets list --app acme --json"],
    related=["budgets show", "usage"],
)
@click.option(
    "--app", "app_id", shell_complete=complete_with(find_apps), help="Only those that this app's runs must fit in."
)
@json_option
def list_budgets(app_id: str | None, as_json: bool) -> None:
    """Lists budgets, with what is spent of them now.

    Spent is what was spent in the window that goes on. A budget of each app (app:*) has a line for each app that has
    spent of it; on a terminal the five fullest.
    """

    async def work(database: Any, _settings: object) -> "Sequence[BudgetStatus]":
        from accounting.budgets.budget_status import read_statuses

        return await read_statuses(database, app_id)

    found = with_database(work)
    if as_json:
        print_json([each.as_json() for each in found])
        return
    if not found:
        click.echo(_no_budgets_text(app_id), err=True)
    if sys.stdout.isatty():
        from ops.cli.budgets.budget_table import budget_table_lines
        from ops.cli.output import current_terminal

        if found:
            shown = current_terminal()
            shown.print("\n".join(budget_table_lines(found, shown, now=datetime.now(UTC), max_apps=MAX_APPS)))
        return
    columns = ["budget_id", "for_app_id", "spent", "reserved", "limit", "share", "rejections", "window_end"]
    rows = [each.as_json() for each in found]
    print_table("Budgets", columns, [[_format_cell(row[name]) for name in columns] for row in rows])


def _no_budgets_text(app_id: str | None) -> str:
    whose = "" if app_id is None else f" that {to_printable(app_id)}'s runs must fit in"
    return f"there are no budgets{whose} yet; `unattended budgets set --help` shows how to make one"


@command("show", examples=["unattended budgets show app:acme/day/usd"], related=["budgets list", "budgets set"])
@BUDGET_ID_ARGUMENT
@json_option
def show_budget(budget_id: str, as_json: bool) -> None:
    """Tells what one budget limits, and how it stands."""

    async def work(database: Any, _settings: object) -> "tuple[StoredBudget | None, Sequence[BudgetStatus]]":
        from accounting.budgets.budget_status import read_statuses
        from accounting.budgets.budget_store import BudgetStore

        kept = await BudgetStore(database).find(budget_id)
        return kept, [each for each in await read_statuses(database) if each.budget.id == budget_id]

    kept, found = with_database(work)
    if kept is None:
        raise unknown_budget_exit(budget_id)
    if as_json:
        print_json({**kept.as_json(), "standings": [each.as_json() for each in found]})
        return
    from ops.cli.output import current_terminal

    shown = current_terminal()
    shown.print("\n".join(budget_lines(kept, found, shown, now=datetime.now(UTC))))


def budget_lines(
    stored: "StoredBudget", statuses: "Sequence[BudgetStatus]", terminal: "Terminal", *, now: datetime
) -> Iterator[str]:
    from ops.presenters.budget_text import describe_consequence, describe_limit

    budget = stored.budget
    yield terminal.style(budget.id, bold=True)
    yield describe_limit(budget)
    yield describe_consequence(budget)
    if budget.note:
        yield f"note: {to_printable(budget.note)}"
    yield f"set {format_moment(stored.updated_at)} UTC by {to_printable(stored.updated_by)}"
    if budget.is_for_each_app and statuses:
        from ops.cli.budgets.budget_table import budget_table_lines

        yield ""
        yield from budget_table_lines(statuses, terminal, now=now)
    else:
        for each in statuses:
            yield from _status_lines(each, terminal, now)


def _status_lines(status: "BudgetStatus", terminal: "Terminal", now: datetime) -> Iterator[str]:
    from accounting.budgets.budget import format_amount
    from ops.cli.budgets.budget_table import MAX_BAR, status_colour, time_left
    from ops.presenters.amounts import draw_bar, format_count, format_percent
    from ops.presenters.budget_text import format_usd_for_limit

    if status.start is None:  # of a window of run: each counts for itself
        if status.rejections_total:
            yield f"calls that were not made: {status.rejections_total:,} ever"
        return
    unit, limit = status.budget.unit, status.limit
    drawn = terminal.style(draw_bar(status.share, MAX_BAR, unicode=terminal.has_unicode), fg=status_colour(status))
    spent = format_count(status.spent) if unit == "tokens" else format_usd_for_limit(status.spent, limit)
    yield ""
    yield f"{spent} of {format_amount(unit, limit)}, {format_percent(status.share)}  {drawn}".rstrip()
    if status.reserved:
        yield f"{format_amount(unit, status.reserved)} more are reserved for calls that are being made"
    if status.exhausted_since is not None:
        yield f"spent since {format_moment(status.exhausted_since)} UTC"
    if status.rejections_total:
        yield f"runs and calls held or refused: {status.rejections:,} in this window, {status.rejections_total:,} ever"
    if status.end is not None:
        yield f"the window ends {format_moment(status.end)} UTC, in {time_left(status.end, now)}"


def _format_cell(value: Any) -> Any:
    return format_moment(value) if isinstance(value, datetime) else value
