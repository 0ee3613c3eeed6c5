"""The table of `unattended usage` on a terminal: amounts, bars, the total, and warnings."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ops.cli.text_grid import GAP, GridColumn, fit_columns, grid_lines, total_width
from ops.cli.usage.usage_report import FIELDS, UsageReport, sum_totals, total_tokens
from ops.presenters.amounts import draw_bar, format_count, format_percent, format_short_count, format_usd, usd_decimals
from ops.presenters.printable_text import to_printable
from ops.presenters.times import format_utc

if TYPE_CHECKING:
    from accounting.totals.usage_query import UsageFilter
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


def usage_table_lines(report: UsageReport, terminal: "Terminal", *, chart: bool) -> Iterator[str]:
    total = sum_totals([*report.rows, *report.rest])
    rest = [sum_totals(report.rest)] if report.rest else []
    rows = [*report.rows, *rest, total]
    columns = [*_key_columns(report, terminal), *_count_columns(rows, total), _usd_column(rows)]
    room = terminal.width
    if chart:
        columns.append(_cost_share_column(report, rows, total))
        room -= len(GAP) + MIN_BAR
    columns = [*fit_columns(columns, room, _DROP_ORDER)]
    title, *lines = grid_lines(columns, unicode=terminal.has_unicode)
    bars = (
        _bars(report, terminal.width - total_width(columns) - len(GAP), unicode=terminal.has_unicode) if chart else []
    )
    yield terminal.style(title.rstrip(), bold=True)
    for index, line in enumerate(lines[:-1]):
        bar = bars[index] if index < len(bars) else ""
        yield f"{line}{GAP}{terminal.style(bar, fg='cyan')}" if bar else line.rstrip()
    yield terminal.style(lines[-1].rstrip(), bold=True)


def _key_columns(report: UsageReport, terminal: "Terminal") -> Iterator[GridColumn]:
    max_width = max(terminal.width * 3 // (10 * len(report.names)), 10)
    rest = [f"{'…' if terminal.has_unicode else '...'} {format_count(len(report.rest))} more"] if report.rest else []
    for index, name in enumerate(report.names):
        cells = [to_printable(str(row.key[FIELDS[name]])) for row in report.rows]
        last = [*rest, "total"] if index == 0 else [""] * (len(rest) + 1)
        yield GridColumn(name, [*cells, *last], is_right_aligned=False, max_width=max_width)


def _count_columns(rows: "Sequence[Row]", total: "Row") -> Iterator[GridColumn]:
    for title, count in _COUNTS:
        if title in _ALWAYS or count(total):
            numbers = [count(row) for row in rows]
            yield GridColumn(title, [*map(format_count, numbers)], [*map(format_short_count, numbers)])


def _usd_column(rows: "Sequence[Row]") -> GridColumn:
    """Mark a sum that lacks calls without a price with +."""
    decimals = usd_decimals(row.cost_usd for row in rows)
    is_partial = [row.cost_usd is not None and row.unpriced > 0 for row in rows]
    marks = ["+" if partial else " " * any(is_partial) for partial in is_partial]
    return GridColumn("USD", [format_usd(row.cost_usd, decimals) + mark for row, mark in zip(rows, marks, strict=True)])


def _cost_share_column(report: UsageReport, rows: "Sequence[Row]", total: "Row") -> GridColumn:
    """Share of the known cost; a row without a price has none."""
    total_amount = _bar_amount(report, total)
    shares = [
        ""
        if report.is_by_cost and row.cost_usd is None
        else format_percent(_bar_amount(report, row) / total_amount if total_amount else 0.0)
        for row in rows[:-1]
    ]
    return GridColumn("share", [*shares, ""])


def _bars(report: UsageReport, room: int, *, unicode: bool) -> list[str]:
    amounts = [_bar_amount(report, row) for row in report.rows]
    largest = max(amounts, default=0) or 1
    return [draw_bar(amount / largest, min(room, MAX_BAR), unicode=unicode) for amount in amounts]


def _bar_amount(report: UsageReport, row: "Row") -> int:
    return row.cost_nano_usd if report.is_by_cost else total_tokens(row)


def usage_title(report: UsageReport, usage_filter: "UsageFilter", *, chart: bool) -> str:
    since, until = format_utc(usage_filter.since), format_utc(usage_filter.until)
    span = f"since {since}" if since else "all time"
    if until:
        span = f"{since} to {until}" if since else f"until {until}"
    bars = f"; bars are {'USD' if report.is_by_cost else 'tokens'}" if chart else ""
    return f"Usage by {' and '.join(report.names)}, {span}{bars}"


def usage_warnings(total: "UsageTotals") -> Iterator[str]:
    """Yield what makes the sums incomplete, and what to do about it."""
    if total.unpriced:
        yield (
            f"{_calls_text(total.unpriced)} no price, so the sums lack their USD:"
            " find the models with `unattended usage --by provider,model`, and add prices to the models file"
        )
    if total.missing:
        yield (
            f"{_calls_text(total.missing)} no usage (failed, stopped, or not reported), so the sums lack their tokens:"
            " `unattended usage --by model,agent` shows the agents"
        )
    if total.estimated:
        yield f"{_calls_text(total.estimated)} estimated usage, as the provider reported none"


def _calls_text(number: int) -> str:
    return "1 call has" if number == 1 else f"{number:,} calls have"
