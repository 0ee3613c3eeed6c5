"""Windows: from when to when a budget's spending counts, in the wall time of its zone.

A day and a month begin when the clock of the zone first shows their beginning; where it skips that, as some zones do
at midnight, with the jump. An hour ends when the clock shows the next full hour or is set: none is longer than an hour,
and in autumn there are two with the same name. So windows leave no gap and never overlap.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from accounting.budgets.budget import Window

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Span:
    """Instants in UTC; `end` is not in it, and None where there is none."""

    start: datetime
    end: datetime | None


def span_at(window: Window, timezone: str, instant: datetime) -> Span:
    """The window in which this instant is."""
    if window in ("total", "run"):
        return Span(BEGINNING, None)
    zone, instant = ZoneInfo(timezone), instant.astimezone(UTC)
    if window == "hour":
        return _hour(zone, instant)
    start = _begins(window, _wall(zone, instant))
    # A clock that is set back over midnight shows the day before once more: by then the new one has begun.
    while instant >= (end := _first_shown(zone, _next(window, start))):
        start = _next(window, start)
    return Span(_first_shown(zone, start), end)


def _hour(zone: ZoneInfo, instant: datetime) -> Span:
    wall = _wall(zone, instant)
    start = instant - (wall - wall.replace(minute=0, second=0, microsecond=0))
    end = start + HOUR
    offset = wall - instant.replace(tzinfo=None)
    if _offset(zone, start) != offset:
        start = _change_between(zone, start, instant)
    if _offset(zone, end - _SECOND) != offset:
        end = _change_between(zone, instant, end - _SECOND)
    return Span(start, end)


def _begins(window: Window, wall: datetime) -> datetime:
    midnight = wall.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight if window == "day" else midnight.replace(day=1)


def _next(window: Window, start: datetime) -> datetime:
    if window == "day":
        return start + timedelta(days=1)
    return start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)


def _first_shown(zone: ZoneInfo, wall: datetime) -> datetime:
    """When the clock first shows this time; when it jumps over it, the instant of the jump."""
    instant = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if _wall(zone, instant) == wall:
        return instant
    return _change_between(zone, wall.replace(tzinfo=zone, fold=1).astimezone(UTC), instant)


def _change_between(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """The first second with another offset; after `before`, and at `after` the latest."""
    old, after = _offset(zone, before), after.replace(microsecond=0)
    before = before.replace(microsecond=0)
    while after - before > _SECOND:
        middle = (before + (after - before) / 2).replace(microsecond=0)
        if _offset(zone, middle) == old:
            before = middle
        else:
            after = middle
    return after


def _wall(zone: ZoneInfo, instant: datetime) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def _offset(zone: ZoneInfo, instant: datetime) -> timedelta:
    return instant.astimezone(zone).utcoffset() or timedelta(0)
