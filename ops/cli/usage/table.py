"""The table of `unattended usage` on a terminal: amounts, a bar for each row, and the total."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ops.cli.amounts import decimals_for, short, usd_text, whole
from ops.cli.bars import bar, percent
from ops.cli.grid import GAP, Column, fitting, grid_lines, width_of
from ops.cli.usage.keys import FIELDS
from ops.cli.usage.ordering import Bill, summed, tokens_of
from ops.cli.verdicts import printable

if TYPE_CHECKING:
    from accounting.usage import UsageTotals
    from ops.cli.terminal import Terminal

    Row = UsageTotals

MIN_BAR = 8
MAX_BAR = 40
_ALWAYS = ("calls", "input", "output")
_DROPPED_FIRST = ("reasoning", "cache write", "cached", "estimated", "unpriced", "missing", "calls", "share")
_COUNTS: "Sequence[tuple[str, Callable[[Row], int]]]" = (
    ("calls", lambda row: row.calls),
    ("input", lambda row: row.input_tokens),
    ("cached", lambda row: row.cached_input_tokens),
    ("cache write", lambda row: row.cache_write_tokens),
    ("output", lambda row: row.output_tokens),
    ("reasoning", lambda row: row.reasoning_tokens),
    ("missing", lambda row: row.missing),
    ("estimated", lambda row: row.estimated),
    ("unpriced", lambda row: row.unpriced),
)


def table_lines(bill: Bill, terminal: "Terminal", *, chart: bool) -> Iterator[str]:
    total = summed([*bill.rows, *bill.rest])
    rest = [summed(bill.rest)] if bill.rest else []
    rows = [*bill.rows, *rest, total]
    columns = [*_key_columns(bill, terminal), *_count_columns(rows, total), _usd_column(rows)]
    room = terminal.width
    if chart:
        columns.append(_share_column(bill, rows, total))
        room -= len(GAP) + MIN_BAR
    columns = [*fitting(columns, room, _DROPPED_FIRST)]
    title, *lines = grid_lines(columns, unicode=terminal.unicode)
    bars = _bars(bill, terminal.width - width_of(columns) - len(GAP), unicode=terminal.unicode) if chart else []
    yield terminal.styled(title.rstrip(), bold=True)
    for index, line in enumerate(lines[:-1]):
        drawn = bars[index] if index < len(bars) else ""
        yield f"{line}{GAP}{terminal.styled(drawn, fg='cyan')}" if drawn else line.rstrip()
    yield terminal.styled(lines[-1].rstrip(), bold=True)


def _key_columns(bill: Bill, terminal: "Terminal") -> Iterator[Column]:
    most = max(terminal.width * 3 // (10 * len(bill.names)), 10)
    more = [f"{'…' if terminal.unicode else '...'} {whole(len(bill.rest))} more"] if bill.rest else []
    for index, name in enumerate(bill.names):
        cells = [printable(str(row.key[FIELDS[name]])) for row in bill.rows]
        last = [*more, "total"] if index == 0 else [""] * (len(more) + 1)
        yield Column(name, [*cells, *last], right=False, most=most)


def _count_columns(rows: "Sequence[Row]", total: "Row") -> Iterator[Column]:
    for title, count in _COUNTS:
        if title in _ALWAYS or count(total):
            numbers = [count(row) for row in rows]
            yield Column(title, [*map(whole, numbers)], [*map(short, numbers)])


def _usd_column(rows: "Sequence[Row]") -> Column:
    """A + where it is more, nobody knows how much."""
    decimals = decimals_for(row.cost_usd for row in rows)
    partly = [row.cost_usd is not None and row.unpriced > 0 for row in rows]
    marks = ["+" if each else " " * any(partly) for each in partly]
    return Column("USD", [usd_text(row.cost_usd, decimals) + mark for row, mark in zip(rows, marks, strict=True)])


def _share_column(bill: Bill, rows: "Sequence[Row]", total: "Row") -> Column:
    """Of what is known: a cost that nobody knows is no share of it."""
    whole_of_it = _measure(bill, total)
    shares = [
        ""
        if bill.by_cost and row.cost_usd is None
        else percent(_measure(bill, row) / whole_of_it if whole_of_it else 0.0)
        for row in rows[:-1]
    ]
    return Column("share", [*shares, ""])


def _bars(bill: Bill, room: int, *, unicode: bool) -> list[str]:
    measures = [_measure(bill, row) for row in bill.rows]
    largest = max(measures, default=0) or 1
    return [bar(each / largest, min(room, MAX_BAR), unicode=unicode) for each in measures]


def _measure(bill: Bill, row: "Row") -> int:
    return row.cost_nano_usd if bill.by_cost else tokens_of(row)
