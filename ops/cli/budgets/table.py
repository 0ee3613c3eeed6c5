"""The table of `unattended budgets list` on a terminal: a bar for each budget, of what is spent."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING

from accounting.budgets.budget import usd_exactly
from ops.cli.amounts import short, whole
from ops.cli.bars import bar, percent
from ops.cli.budgets.words import usd_beside
from ops.cli.grid import GAP, Column, fitting, grid_lines, width_of
from ops.cli.runs.lines import lasting
from ops.cli.verdicts import printable

if TYPE_CHECKING:
    from accounting.budgets.standing import Standing
    from ops.cli.terminal import Terminal

MIN_BAR = 8
MAX_BAR = 30
WARNS_AT = 0.8
_DROPPED_FIRST = ("left", "reserved", "rejected", "spent", "ends in")


def table_lines(
    found: "Sequence[Standing]", terminal: "Terminal", *, now: datetime, most: int | None = None
) -> Iterator[str]:
    """`most`: apps of a budget that each app has."""
    rows, cut = _fullest(found, most)
    columns = fitting([*_columns(rows, terminal, now)], terminal.width - len(GAP) - MIN_BAR, _DROPPED_FIRST)
    title, *lines = grid_lines(columns, unicode=terminal.unicode)
    width = min(terminal.width - width_of(columns) - len(GAP), MAX_BAR)
    yield terminal.styled(title.rstrip(), bold=True)
    for row, line in zip(rows, lines, strict=True):
        drawn = bar(row.share if row.start else 0.0, width, unicode=terminal.unicode)
        yield f"{line}{GAP}{terminal.styled(drawn, fg=colour_of(row))}".rstrip()
    for budget_id, number in cut.items():
        yield f"{budget_id}: {whole(number)} more apps; `unattended budgets show {budget_id}` shows them"


def _fullest(found: "Sequence[Standing]", most: int | None) -> "tuple[list[Standing], dict[str, int]]":
    """Of each budget those that have spent most of it, and how many are left out."""
    rows: list[Standing] = []
    cut: dict[str, int] = {}
    for budget_id, standings in groupby(found, key=lambda row: row.budget.id):
        those = sorted(standings, key=lambda row: -row.share)
        shown = those[:most]
        rows += shown
        if len(those) > len(shown):
            cut[budget_id] = len(those) - len(shown)
    return rows, cut


def colour_of(row: "Standing") -> str:
    if row.exhausted:
        return "red"
    return "yellow" if row.share >= WARNS_AT else "green"


def ends_in(end: datetime | None, now: datetime) -> str:
    return "" if end is None else lasting(now, end)


def _columns(rows: "Sequence[Standing]", terminal: "Terminal", now: datetime) -> Iterator[Column]:
    yield Column("budget", [_name(row) for row in rows], right=False, most=max(terminal.width // 2, 20))
    amounts = {
        "spent": [row.spent for row in rows],
        "limit": [row.limit for row in rows],
        "left": [row.left for row in rows],
        "reserved": [row.reserved for row in rows],
    }
    for title, numbers in amounts.items():
        if title != "reserved" or any(numbers):
            cells = [_cell(row, title, number, whole) for row, number in zip(rows, numbers, strict=True)]
            shorter = [_cell(row, title, number, short) for row, number in zip(rows, numbers, strict=True)]
            yield Column(title, cells, shorter)
    rejected = [row.rejections if row.start else row.rejections_total for row in rows]  # a run's window is not shown
    if any(rejected):
        yield Column("rejected", [*map(whole, rejected)])
    yield Column("ends in", [ends_in(row.end, now) for row in rows])
    yield Column("used", [percent(row.share) if row.start else "" for row in rows])


def _name(row: "Standing") -> str:
    return f"{row.budget.id} {printable(row.app_id)}" if row.budget.is_for_each_app and row.app_id else row.budget.id


def _cell(row: "Standing", title: str, amount: int, tokens_text: Callable[[int], str]) -> str:
    if row.start is None and title != "limit":
        return ""
    if row.budget.unit == "tokens":
        return tokens_text(amount)
    return usd_exactly(amount) if title == "limit" else usd_beside(amount, row.limit)
