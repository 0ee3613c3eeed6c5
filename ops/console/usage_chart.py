"""The chart of usage: a column for each hour or day, made of the largest parts and the rest."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from accounting.totals.reading import Wanted, usage_totals
from accounting.usage import UsageTotals
from ops.cli.amounts import short
from ops.console.words import usd

HEIGHT = 160
MOST_PARTS = 5  # with a colour each; what is smaller shares one
MOST_COLUMNS = 100
BY_HOUR_UP_TO = timedelta(hours=49)
LABELS = 5
REST = "others"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a column, in pixels from the top; its place among the parts is its colour."""

    part: int
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Column:
    """`x` and `width` are in per cent; `label` is below it where there is room."""

    x: float
    width: float
    label: str | None
    said: str
    total: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    measure: str
    bucket: str
    top: str
    total: str
    parts: tuple[str, ...]
    columns: tuple[Column, ...]


async def chart_of(
    database: AsyncDatabase[dict[str, Any]], wanted: Wanted, key: str | None, *, now: datetime
) -> Chart | None:
    """Of a time with a beginning; None where nothing was used, or it is too long for columns."""
    since, until = wanted.since, wanted.until or now
    if since is None or until <= since:
        return None
    bucket = "hour" if until - since <= BY_HOUR_UP_TO else "day"
    times = _times(since, until, bucket)
    rows = await usage_totals(database, [bucket] if key is None else [bucket, key], wanted)
    if not rows or len(times) > MOST_COLUMNS:
        return None
    return drawn(rows, times, bucket, key)


def _times(since: datetime, until: datetime, bucket: str) -> Sequence[str]:
    step, form = (timedelta(hours=1), "%Y-%m-%dT%H:00Z") if bucket == "hour" else (timedelta(days=1), "%Y-%m-%d")
    first = since.replace(minute=0, second=0, microsecond=0)
    at = first if bucket == "hour" else first.replace(hour=0)
    times: list[str] = []
    while at < until and len(times) <= MOST_COLUMNS:
        times.append(at.strftime(form))
        at += step
    return times


def drawn(rows: Sequence[UsageTotals], times: Sequence[str], bucket: str, key: str | None) -> Chart:
    """In USD where any price is known, else in tokens."""
    measure = "USD" if any(row.cost_nano_usd for row in rows) else "tokens"
    by_part: dict[str, float] = defaultdict(float)
    by_place: dict[tuple[str, str], float] = defaultdict(float)
    for row in rows:
        by_part[_part(row, key)] += _amount(row, measure)
    largest = sorted(by_part, key=lambda name: (-by_part[name], name))
    parts = tuple(largest if len(largest) <= MOST_PARTS + 1 else [*largest[:MOST_PARTS], REST])
    for row in rows:
        name = _part(row, key)
        by_place[row.key[bucket], name if name in parts else REST] += _amount(row, measure)
    sums = {time: sum(by_place[time, name] for name in parts) for time in times}
    top = max(sums.values(), default=0.0) or 1.0
    columns = tuple(
        Column(
            x=round(index * 100 / len(times), 3),
            width=round(100 / len(times), 3),
            label=_label(time, bucket) if index % max(-(-len(times) // LABELS), 1) == 0 else None,
            said=_spelled(time),
            total=_told(sums[time], measure),
            pieces=_pieces([by_place[time, name] for name in parts], top),
        )
        for index, time in enumerate(times)
    )
    shown = parts if key is not None else ()
    return Chart(measure, bucket, _told(top, measure), _told(sum(sums.values()), measure), shown, columns)


def _pieces(amounts: Sequence[float], top: float) -> tuple[Piece, ...]:
    """The largest part is at the bottom."""
    found: list[Piece] = []
    y = float(HEIGHT)
    for part, amount in enumerate(amounts):
        height = max(amount / top * HEIGHT, 1.0) if amount > 0 else 0.0
        y -= height
        if height:
            found.append(Piece(part, round(max(y, 0.0), 2), round(height, 2)))
    return tuple(found)


def _part(row: UsageTotals, key: str | None) -> str:
    return "" if key is None else str(row.key[key] or "none")


def _amount(row: UsageTotals, measure: str) -> float:
    return row.cost_nano_usd / 1e9 if measure == "USD" else float(row.input_tokens + row.output_tokens)


def _told(amount: float, measure: str) -> str:
    return usd(amount) if measure == "USD" else short(round(amount))


def _label(time: str, bucket: str) -> str:
    return time[11:16] if bucket == "hour" else time[5:10]


def _spelled(time: str) -> str:
    return time.replace("T", " ").replace("Z", " UTC")
