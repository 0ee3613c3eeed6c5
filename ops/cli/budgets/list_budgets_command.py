"""`unattended budgets list` and `show`."""

import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, NoReturn

import click

from accounting.budgets.budget import format_amount, format_usd
from ops.cli.command import command
from ops.cli.completion import complete_with, find_apps
from ops.cli.database_session import with_database
from ops.cli.output import exit_with_error, json_option, print_json, print_table
from ops.cli.text_grid import GAP, GridColumn, fit_columns, grid_lines, total_width
from ops.presenters.amounts import draw_bar, format_count, format_percent, format_short_count
from ops.presenters.budget_text import WARNING_SHARE, describe_consequence, describe_limit, format_usd_for_limit
from ops.presenters.printable_text import to_printable
from ops.presenters.times import format_duration, format_moment, format_utc

if TYPE_CHECKING:
    from accounting.budgets.budget_status import BudgetStatus
    from accounting.budgets.budget_store import StoredBudget
    from ops.cli.output import Terminal

MAX_APPS = 5
MIN_BAR = 8
MAX_BAR = 30
_DROP_ORDER = ("left", "reserved", "rejected", "spent", "ends in")

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
    budget = stored.budget
    yield terminal.style(budget.id, bold=True)
    yield describe_limit(budget)
    yield describe_consequence(budget)
    if budget.note:
        yield f"note: {to_printable(budget.note)}"
    yield f"set {format_utc(stored.updated_at)} by {to_printable(stored.updated_by)}"
    if budget.is_for_each_app and statuses:
        yield ""
        yield from budget_table_lines(statuses, terminal, now=now)
    else:
        for status in statuses:
            yield from _status_lines(status, terminal, now)


def _status_lines(status: "BudgetStatus", terminal: "Terminal", now: datetime) -> Iterator[str]:
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
        yield f"used up since {format_utc(status.exhausted_since)}"
    if status.rejections_total:
        total = f"{status.rejections_total:,} in all"
        yield f"runs and calls held or refused: {status.rejections:,} in this window, {total}"
    if status.end is not None:
        yield f"the window ends {format_utc(status.end)}, in {time_left(status.end, now)}"


def _format_cell(value: Any) -> Any:
    return format_moment(value) if isinstance(value, datetime) else value


def budget_table_lines(
    statuses: "Sequence[BudgetStatus]", terminal: "Terminal", *, now: datetime, max_apps: int | None = None
) -> Iterator[str]:
    """`max_apps` limits the lines of a budget that each app has."""
    rows, hidden = _select_fullest(statuses, max_apps)
    columns = fit_columns([*_columns(rows, terminal, now)], terminal.width - len(GAP) - MIN_BAR, _DROP_ORDER)
    title, *lines = grid_lines(columns, unicode=terminal.has_unicode)
    width = min(terminal.width - total_width(columns) - len(GAP), MAX_BAR)
    yield terminal.style(title.rstrip(), bold=True)
    for row, line in zip(rows, lines, strict=True):
        bar = draw_bar(row.share if row.start else 0.0, width, unicode=terminal.has_unicode)
        yield f"{line}{GAP}{terminal.style(bar, fg=status_colour(row))}".rstrip()
    for budget_id, number in hidden.items():
        yield f"{budget_id}: {format_count(number)} more apps; `unattended budgets show {budget_id}` shows them"


def _select_fullest(
    statuses: "Sequence[BudgetStatus]", max_apps: int | None
) -> "tuple[list[BudgetStatus], dict[str, int]]":
    """Select the fullest rows of each budget, and count the others."""
    rows: list[BudgetStatus] = []
    hidden: dict[str, int] = {}
    for budget_id, group in groupby(statuses, key=lambda row: row.budget.id):
        fullest_first = sorted(group, key=lambda row: -row.share)
        shown = fullest_first[:max_apps]
        rows += shown
        if len(fullest_first) > len(shown):
            hidden[budget_id] = len(fullest_first) - len(shown)
    return rows, hidden


def status_colour(row: "BudgetStatus") -> str:
    if row.is_exhausted:
        return "red"
    return "yellow" if row.share >= WARNING_SHARE else "green"


def time_left(end: datetime | None, now: datetime) -> str:
    return "" if end is None else format_duration(now, end)


def _columns(rows: "Sequence[BudgetStatus]", terminal: "Terminal", now: datetime) -> Iterator[GridColumn]:
    yield GridColumn(
        "budget", [_budget_label(row) for row in rows], is_right_aligned=False, max_width=max(terminal.width // 2, 20)
    )
    amounts = {
        "spent": [row.spent for row in rows],
        "limit": [row.limit for row in rows],
        "left": [row.remaining for row in rows],
        "reserved": [row.reserved for row in rows],
    }
    for title, numbers in amounts.items():
        if title != "reserved" or any(numbers):
            cells = [_amount_cell(row, title, number, format_count) for row, number in zip(rows, numbers, strict=True)]
            short_cells = [
                _amount_cell(row, title, number, format_short_count) for row, number in zip(rows, numbers, strict=True)
            ]
            yield GridColumn(title, cells, short_cells)
    rejected = [row.rejections if row.start else row.rejections_total for row in rows]  # a window per run has no row
    if any(rejected):
        yield GridColumn("rejected", [*map(format_count, rejected)])
    yield GridColumn("ends in", [time_left(row.end, now) for row in rows])
    yield GridColumn("used", [format_percent(row.share) if row.start else "" for row in rows])


def _budget_label(row: "BudgetStatus") -> str:
    return f"{row.budget.id} {to_printable(row.app_id)}" if row.budget.is_for_each_app and row.app_id else row.budget.id


def _amount_cell(row: "BudgetStatus", title: str, amount: int, tokens_text: Callable[[int], str]) -> str:
    if row.start is None and title != "limit":
        return ""
    if row.budget.unit == "tokens":
        return tokens_text(amount)
    return format_usd(amount) if title == "limit" else format_usd_for_limit(amount, row.limit)
