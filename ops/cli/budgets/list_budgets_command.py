"""`unattended budgets list` and `show`."""

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ops.cli.command import command
from ops.cli.completion import complete_with, find_apps
from ops.cli.output import exit_with_error, json_option, print_json, print_table
from ops.cli.session import with_database
from ops.presenters.amounts import draw_bar, format_count, format_percent
from ops.presenters.printable_text import to_printable
from ops.presenters.times import format_moment, format_utc

if TYPE_CHECKING:
    from accounting.budgets.budget_status import BudgetStatus
    from accounting.budgets.budget_store import StoredBudget
    from ops.cli.output import Terminal

MAX_APPS = 5

BUDGET_ID_ARGUMENT = click.argument("budget_id", metavar="ID")


def exit_with_unknown_budget(budget_id: str) -> NoReturn:
    exit_with_error(f"there is no budget {budget_id}; `unattended budgets list` lists the budgets")


@command(
    "list",
    examples=["unattended budgets list", "unattended budgets list --app acme --json"],
    related=["budgets show", "usage"],
)
@click.option(
    "--app", "app_id", shell_complete=complete_with(find_apps), help="Only budgets that limit this app's runs."
)
@json_option
def list_budgets(app_id: str | None, as_json: bool) -> None:
    """Lists budgets, and what is spent of each.

    "spent" counts the current window. A budget of each app (app:*) has a line for every app that has spent from it; a
    terminal shows the five fullest.
    """

    async def work(database: Any, _settings: object) -> "Sequence[BudgetStatus]":
        from accounting.budgets.budget_status import read_statuses

        return await read_statuses(database, app_id)

    statuses = with_database(work)
    if as_json:
        print_json([status.as_json() for status in statuses])
        return
    if not statuses:
        click.echo(_no_budgets_text(app_id), err=True)
    if sys.stdout.isatty():
        from ops.cli.budgets.budget_table import budget_table_lines
        from ops.cli.output import current_terminal

        if statuses:
            terminal = current_terminal()
            terminal.print("\n".join(budget_table_lines(statuses, terminal, now=datetime.now(UTC), max_apps=MAX_APPS)))
        return
    columns = ["budget_id", "for_app_id", "spent", "reserved", "limit", "share", "rejections", "window_end"]
    rows = [status.as_json() for status in statuses]
    print_table("Budgets", columns, [[_format_cell(row[name]) for name in columns] for row in rows])


def _no_budgets_text(app_id: str | None) -> str:
    scope = "" if app_id is None else f" for the runs of {to_printable(app_id)}"
    return f"there are no budgets{scope} yet; `unattended budgets set --help` shows how to create one"


@command("show", examples=["unattended budgets show app:acme/day/usd"], related=["budgets list", "budgets set"])
@BUDGET_ID_ARGUMENT
@json_option
def show_budget(budget_id: str, as_json: bool) -> None:
    """Shows one budget, and what is spent of it."""

    async def work(database: Any, _settings: object) -> "tuple[StoredBudget | None, Sequence[BudgetStatus]]":
        from accounting.budgets.budget_status import read_statuses
        from accounting.budgets.budget_store import BudgetStore

        stored = await BudgetStore(database).find(budget_id)
        return stored, [status for status in await read_statuses(database) if status.budget.id == budget_id]

    stored, statuses = with_database(work)
    if stored is None:
        exit_with_unknown_budget(budget_id)
    if as_json:
        print_json({**stored.as_json(), "standings": [status.as_json() for status in statuses]})
        return
    from ops.cli.output import current_terminal

    terminal = current_terminal()
    terminal.print("\n".join(budget_lines(stored, statuses, terminal, now=datetime.now(UTC))))


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
    yield f"set {format_utc(stored.updated_at)} by {to_printable(stored.updated_by)}"
    if budget.is_for_each_app and statuses:
        from ops.cli.budgets.budget_table import budget_table_lines

        yield ""
        yield from budget_table_lines(statuses, terminal, now=now)
    else:
        for status in statuses:
            yield from _status_lines(status, terminal, now)


def _status_lines(status: "BudgetStatus", terminal: "Terminal", now: datetime) -> Iterator[str]:
    from accounting.budgets.budget import format_amount
    from ops.cli.budgets.budget_table import MAX_BAR, status_colour, time_left
    from ops.presenters.budget_text import format_usd_for_limit

    if status.start is None:  # a window per run: every run counts for itself
        if status.rejections_total:
            yield f"refused calls: {status.rejections_total:,} in all"
        return
    unit, limit = status.budget.unit, status.limit
    bar = terminal.style(draw_bar(status.share, MAX_BAR, unicode=terminal.has_unicode), fg=status_colour(status))
    spent = format_count(status.spent) if unit == "tokens" else format_usd_for_limit(status.spent, limit)
    yield ""
    yield f"{spent} of {format_amount(unit, limit)}, {format_percent(status.share)}  {bar}".rstrip()
    if status.reserved:
        yield f"reserved for calls in progress: {format_amount(unit, status.reserved)}"
    if status.exhausted_since is not None:
        yield f"spent since {format_utc(status.exhausted_since)}"
    if status.rejections_total:
        total = f"{status.rejections_total:,} in all"
        yield f"runs and calls held or refused: {status.rejections:,} in this window, {total}"
    if status.end is not None:
        yield f"the window ends {format_utc(status.end)}, in {time_left(status.end, now)}"


def _format_cell(value: Any) -> Any:
    return format_moment(value) if isinstance(value, datetime) else value
