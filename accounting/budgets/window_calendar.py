"""Windows: when the spending of a budget begins and ends to count, in its time zone.

A day and a month begin when the clock of the zone first shows their beginning, or with the jump where the clock skips
it, as some zones do at midnight. An hour ends when the clock shows the next full hour or is set: no window is longer
than an hour, and in autumn two have the same name. So windows have no gaps and never overlap.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from accounting.budgets.budget import Window
from accounting.infra.clock_changes import find_offset_change, utc_offset

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class WindowSpan:
    """A window in UTC. `end` is exclusive, and None if the window has no end."""

    start: datetime
    end: datetime | None


def window_span(window: Window, timezone: str, instant: datetime) -> WindowSpan:
    """Returns the window that contains this instant."""
    if window in ("total", "run"):
        return WindowSpan(EPOCH, None)
    zone, instant = ZoneInfo(timezone), instant.astimezone(UTC)
    if window == "hour":
        return _hour_span(zone, instant)
    start = _wall_start(window, _wall_time(zone, instant))
    # A clock that is set back over midnight shows the previous day once more, but the new day has begun.
    while instant >= (end := _first_instant(zone, _next_wall_start(window, start))):
        start = _next_wall_start(window, start)
    return WindowSpan(_first_instant(zone, start), end)


def _hour_span(zone: ZoneInfo, instant: datetime) -> WindowSpan:
    wall = _wall_time(zone, instant)
    start = instant - (wall - wall.replace(minute=0, second=0, microsecond=0))
    end = start + HOUR
    offset = wall - instant.replace(tzinfo=None)
    if utc_offset(zone, start) != offset:
        start = find_offset_change(zone, start, instant)
    if utc_offset(zone, end - _SECOND) != offset:
        end = find_offset_change(zone, instant, end - _SECOND)
    return WindowSpan(start, end)


def _wall_start(window: Window, wall: datetime) -> datetime:
    midnight = wall.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight if window == "day" else midnight.replace(day=1)


def _next_wall_start(window: Window, start: datetime) -> datetime:
    if window == "day":
        return start + timedelta(days=1)
    return start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)


def _first_instant(zone: ZoneInfo, wall: datetime) -> datetime:
    """Returns when the clock first shows this time, or the instant of the jump over it."""
    instant = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if _wall_time(zone, instant) == wall:
        return instant
    return find_offset_change(zone, wall.replace(tzinfo=zone, fold=1).astimezone(UTC), instant)


def _wall_time(zone: ZoneInfo, instant: datetime) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)
