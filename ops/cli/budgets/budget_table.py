"""The table of `unattended budgets list` on a terminal, with a bar of what is spent."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING

from accounting.budgets.budget import format_usd
from ops.cli.text_grid import GAP, GridColumn, fit_columns, grid_lines, total_width
from ops.presenters.amounts import draw_bar, format_count, format_percent, format_short_count
from ops.presenters.budget_text import WARNING_SHARE, format_usd_for_limit
from ops.presenters.printable_text import to_printable
from ops.presenters.times import format_duration

if TYPE_CHECKING:
    from accounting.budgets.budget_status import BudgetStatus
    from ops.cli.output import Terminal

MIN_BAR = 8
MAX_BAR = 30
_DROP_ORDER = ("left", "reserved", "rejected", "spent", "ends in")


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
