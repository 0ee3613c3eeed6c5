"""The table of `unattended usage` on a terminal: amounts, a bar for each row, and the total."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ops.cli.text_grid import GAP, GridColumn, fit_columns, grid_lines, total_width
from ops.cli.usage.bill import FIELDS, Bill, sum_totals, total_tokens
from ops.presenters.amounts import draw_bar, format_count, format_percent, format_short_count, format_usd, usd_decimals
from ops.presenters.printable_text import to_printable
from ops.presenters.times import format_utc

if TYPE_CHECKING:
    from accounting.usage import UsageTotals
    from ops.cli.output import Terminal

    Row = UsageTotals

MIN_BAR = 8
MAX_BAR = 40
_ALWAYS = ("calls", "input", "output")
_DROP_ORDER = ("reasoning", "cache write", "cached", "estimated", "unpriced", "missing", "calls", "share")
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


def usage_table_lines(bill: Bill, terminal: "Terminal", *, chart: bool) -> Iterator[str]:
    total = sum_totals([*bill.rows, *bill.rest])
    rest = [sum_totals(bill.rest)] if bill.rest else []
    rows = [*bill.rows, *rest, total]
    columns = [*_key_columns(bill, terminal), *_count_columns(rows, total), _usd_column(rows)]
    room = terminal.width
    if chart:
        columns.append(_cost_share_column(bill, rows, total))
        room -= len(GAP) + MIN_BAR
    columns = [*fit_columns(columns, room, _DROP_ORDER)]
    title, *lines = grid_lines(columns, unicode=terminal.has_unicode)
    bars = _bars(bill, terminal.width - total_width(columns) - len(GAP), unicode=terminal.has_unicode) if chart else []
    yield terminal.style(title.rstrip(), bold=True)
    for index, line in enumerate(lines[:-1]):
        drawn = bars[index] if index < len(bars) else ""
        yield f"{line}{GAP}{terminal.style(drawn, fg='cyan')}" if drawn else line.rstrip()
    yield terminal.style(lines[-1].rstrip(), bold=True)


def _key_columns(bill: Bill, terminal: "Terminal") -> Iterator[GridColumn]:
    most = max(terminal.width * 3 // (10 * len(bill.names)), 10)
    more = [f"{'…' if terminal.has_unicode else '...'} {format_count(len(bill.rest))} more"] if bill.rest else []
    for index, name in enumerate(bill.names):
        cells = [to_printable(str(row.key[FIELDS[name]])) for row in bill.rows]
        last = [*more, "total"] if index == 0 else [""] * (len(more) + 1)
        yield GridColumn(name, [*cells, *last], is_right_aligned=False, max_width=most)


def _count_columns(rows: "Sequence[Row]", total: "Row") -> Iterator[GridColumn]:
    for title, count in _COUNTS:
        if title in _ALWAYS or count(total):
            numbers = [count(row) for row in rows]
            yield GridColumn(title, [*map(format_count, numbers)], [*map(format_short_count, numbers)])


def _usd_column(rows: "Sequence[Row]") -> GridColumn:
    """A + where it is more, nobody knows how much."""
    decimals = usd_decimals(row.cost_usd for row in rows)
    partly = [row.cost_usd is not None and row.unpriced > 0 for row in rows]
    marks = ["+" if each else " " * any(partly) for each in partly]
    return GridColumn("USD", [format_usd(row.cost_usd, decimals) + mark for row, mark in zip(rows, marks, strict=True)])


def _cost_share_column(bill: Bill, rows: "Sequence[Row]", total: "Row") -> GridColumn:
    """Of what is known: a cost that nobody knows is no share of it."""
    whole_of_it = _bar_amount(bill, total)
    shares = [
        ""
        if bill.is_by_cost and row.cost_usd is None
        else format_percent(_bar_amount(bill, row) / whole_of_it if whole_of_it else 0.0)
        for row in rows[:-1]
    ]
    return GridColumn("share", [*shares, ""])


def _bars(bill: Bill, room: int, *, unicode: bool) -> list[str]:
    measures = [_bar_amount(bill, row) for row in bill.rows]
    largest = max(measures, default=0) or 1
    return [draw_bar(each / largest, min(room, MAX_BAR), unicode=unicode) for each in measures]


def _bar_amount(bill: Bill, row: "Row") -> int:
    return row.cost_nano_usd if bill.is_by_cost else total_tokens(row)


if TYPE_CHECKING:
    from accounting.totals.usage_query import UsageFilter
    from accounting.usage import UsageTotals


def usage_title(bill: Bill, usage_filter: "UsageFilter", *, chart: bool) -> str:
    since, until = format_utc(usage_filter.since), format_utc(usage_filter.until)
    span = f"since {since}" if since else "all time"
    if until:
        span = f"{since} to {until}" if since else f"until {until}"
    bars = f"; bars are {'USD' if bill.is_by_cost else 'tokens'}" if chart else ""
    return f"Usage by {' and '.join(bill.names)}, {span}{bars}"


def usage_warnings(total: "UsageTotals") -> Iterator[str]:
    """What a reader must know to believe the sums, and what to do about it."""
    if total.unpriced:
        yield (
            f"{_calls_text(total.unpriced)} no price, so no USD in the sums:"
            " `unattended usage --by provider,model` shows whose; add it to the models file"
        )
    if total.missing:
        yield (
            f"{_calls_text(total.missing)} no usage, so no tokens in the sums (failed, stopped, or not reported):"
            " `unattended usage --by model,agent` shows whose"
        )
    if total.estimated:
        yield f"{_calls_text(total.estimated)} estimated usage, as no usage was reported"


def _calls_text(number: int) -> str:
    return "1 call has" if number == 1 else f"{number:,} calls have"
