"""Zone changes: when a zone's clocks change, found once for each year and remembered."""

from dataclasses import dataclass
from datetime import MAXYEAR, UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

_PROBE_INTERVAL = timedelta(days=3)  # since 1970 no zone has changed its clocks twice within six days
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class OffsetPeriod:
    """Of one offset from UTC: `wall = instant + offset` until `end`."""

    offset: timedelta
    end: datetime


def find_offset_period(timezone: str, instant: datetime) -> OffsetPeriod:
    """It ends with a change of the clocks, or with the year in UTC."""
    for change in find_clock_changes(timezone, instant.year):
        if change > instant:
            return OffsetPeriod(_utc_offset(timezone, instant), change)
    return OffsetPeriod(_utc_offset(timezone, instant), _start_of_year(instant.year + 1))


def find_last_change(timezone: str, instant: datetime) -> datetime | None:
    """The one at `instant` or before it in the same year."""
    return max((change for change in find_clock_changes(timezone, instant.year) if change <= instant), default=None)


@lru_cache(maxsize=4096)
def find_clock_changes(timezone: str, year: int) -> tuple[datetime, ...]:
    """The first instants with another offset than the second before."""
    found = []
    earlier = _start_of_year(year) - _SECOND
    end = _start_of_year(year + 1) - _SECOND
    while earlier < end:
        later = min(earlier + _PROBE_INTERVAL, end)
        if _utc_offset(timezone, earlier) != _utc_offset(timezone, later):
            found.append(_bisect_change(timezone, earlier, later))
        earlier = later
    return tuple(found)


def _bisect_change(timezone: str, before: datetime, after: datetime) -> datetime:
    old = _utc_offset(timezone, before)
    while after - before > _SECOND:
        middle = before + (after - before) // 2
        middle = middle.replace(microsecond=0)
        if _utc_offset(timezone, middle) == old:
            before = middle
        else:
            after = middle
    return after


def _utc_offset(timezone: str, instant: datetime) -> timedelta:
    return instant.astimezone(ZoneInfo(timezone)).utcoffset() or timedelta(0)


def _start_of_year(year: int) -> datetime:
    """Years beyond the calendar's end begin with its last second: nothing comes after it."""
    return datetime(year, 1, 1, tzinfo=UTC) if year <= MAXYEAR else datetime.max.replace(tzinfo=UTC)
