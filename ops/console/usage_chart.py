"""The chart of usage: a column per hour or day, divided into the largest parts and the rest."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from accounting.totals.usage_query import UsageFilter, usage_totals
from accounting.usage import UsageTotals
from ops.console.template_filters import format_usd_amount
from ops.presenters.amounts import format_short_count

HEIGHT = 160
MAX_PARTS = 5  # each has a colour; smaller parts share one
MAX_COLUMNS = 100
MAX_HOURLY_SPAN = timedelta(hours=49)
MAX_LABELS = 5
REST_LABEL = "others"


@dataclass(frozen=True, slots=True)
class ChartPiece:
    """A part of a column, in pixels from the top; `part` selects its colour."""

    part: int
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class ChartColumn:
    """`x` and `width` are in per cent; `label` stands below every few columns."""

    x: float
    width: float
    label: str | None
    time_text: str
    total: str
    pieces: tuple[ChartPiece, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    measure: str
    bucket: str
    top: str
    total: str
    parts: tuple[str, ...]
    columns: tuple[ChartColumn, ...]


async def read_usage_chart(
    database: AsyncDatabase[dict[str, Any]], usage_filter: UsageFilter, key: str | None, *, now: datetime
) -> Chart | None:
    """Return None without a start, without usage, or for a period that needs too many columns."""
    since, until = usage_filter.since, usage_filter.until or now
    if since is None or until <= since:
        return None
    bucket = "hour" if until - since <= MAX_HOURLY_SPAN else "day"
    times = _times(since, until, bucket)
    rows = await usage_totals(database, [bucket] if key is None else [bucket, key], usage_filter)
    if not rows or len(times) > MAX_COLUMNS:
        return None
    return draw_chart(rows, times, bucket, key)


def _times(since: datetime, until: datetime, bucket: str) -> Sequence[str]:
    step, form = (timedelta(hours=1), "%Y-%m-%dT%H:00Z") if bucket == "hour" else (timedelta(days=1), "%Y-%m-%d")
    first = since.replace(minute=0, second=0, microsecond=0)
    at = first if bucket == "hour" else first.replace(hour=0)
    times: list[str] = []
    while at < until and len(times) <= MAX_COLUMNS:
        times.append(at.strftime(form))
        at += step
    return times


def draw_chart(rows: Sequence[UsageTotals], times: Sequence[str], bucket: str, key: str | None) -> Chart:
    """Draw USD if any price is known, else tokens."""
    measure = "USD" if any(row.cost_nano_usd for row in rows) else "tokens"
    by_part: dict[str, float] = defaultdict(float)
    amounts: dict[tuple[str, str], float] = defaultdict(float)
    for row in rows:
        by_part[_part_name(row, key)] += _row_amount(row, measure)
    largest = sorted(by_part, key=lambda name: (-by_part[name], name))
    parts = tuple(largest if len(largest) <= MAX_PARTS + 1 else [*largest[:MAX_PARTS], REST_LABEL])
    for row in rows:
        name = _part_name(row, key)
        amounts[row.key[bucket], name if name in parts else REST_LABEL] += _row_amount(row, measure)
    sums = {time: sum(amounts[time, name] for name in parts) for time in times}
    top = max(sums.values(), default=0.0) or 1.0
    columns = tuple(
        ChartColumn(
            x=round(index * 100 / len(times), 3),
            width=round(100 / len(times), 3),
            label=_axis_label(time, bucket) if index % max(-(-len(times) // MAX_LABELS), 1) == 0 else None,
            time_text=_format_time(time),
            total=_format_amount(sums[time], measure),
            pieces=_pieces([amounts[time, name] for name in parts], top),
        )
        for index, time in enumerate(times)
    )
    shown = parts if key is not None else ()
    return Chart(
        measure, bucket, _format_amount(top, measure), _format_amount(sum(sums.values()), measure), shown, columns
    )


def _pieces(amounts: Sequence[float], top: float) -> tuple[ChartPiece, ...]:
    """Stack the parts with the largest at the bottom."""
    pieces: list[ChartPiece] = []
    y = float(HEIGHT)
    for part, amount in enumerate(amounts):
        height = max(amount / top * HEIGHT, 1.0) if amount > 0 else 0.0
        y -= height
        if height:
            pieces.append(ChartPiece(part, round(max(y, 0.0), 2), round(height, 2)))
    return tuple(pieces)


def _part_name(row: UsageTotals, key: str | None) -> str:
    return "" if key is None else str(row.key[key] or "none")


def _row_amount(row: UsageTotals, measure: str) -> float:
    return row.cost_nano_usd / 1e9 if measure == "USD" else float(row.input_tokens + row.output_tokens)


def _format_amount(amount: float, measure: str) -> str:
    return format_usd_amount(amount) if measure == "USD" else format_short_count(round(amount))


def _axis_label(time: str, bucket: str) -> str:
    return time[11:16] if bucket == "hour" else time[5:10]


def _format_time(time: str) -> str:
    return time.replace("T", " ").replace("Z", " UTC")
