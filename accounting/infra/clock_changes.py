"""Clock changes of a time zone, searched once per year and cached."""

from dataclasses import dataclass
from datetime import MAXYEAR, UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

_PROBE_INTERVAL = timedelta(days=3)  # since 1970 no zone has changed its clocks twice within six days
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class OffsetPeriod:
    """The time during which a zone keeps one offset.

    `wall = instant + offset` until `end`.
    """

    offset: timedelta
    end: datetime


def find_offset_period(timezone: str, instant: datetime) -> OffsetPeriod:
    """Returns the period around `instant`.

    It ends at the next clock change or with the year in UTC.
    """
    offset = utc_offset(ZoneInfo(timezone), instant)
    for change in find_clock_changes(timezone, instant.year):
        if change > instant:
            return OffsetPeriod(offset, change)
    return OffsetPeriod(offset, _start_of_year(instant.year + 1))


def find_last_change(timezone: str, instant: datetime) -> datetime | None:
    """Returns the last clock change of the same year that is not after `instant`."""
    return max((change for change in find_clock_changes(timezone, instant.year) if change <= instant), default=None)


@lru_cache(maxsize=4096)
def find_clock_changes(timezone: str, year: int) -> tuple[datetime, ...]:
    """Returns each instant at which the offset is not that of the second before."""
    zone = ZoneInfo(timezone)
    changes = []
    earlier = _start_of_year(year) - _SECOND
    end = _start_of_year(year + 1) - _SECOND
    while earlier < end:
        later = min(earlier + _PROBE_INTERVAL, end)
        if utc_offset(zone, earlier) != utc_offset(zone, later):
            changes.append(find_offset_change(zone, earlier, later))
        earlier = later
    return tuple(changes)


def find_offset_change(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """Returns the first second that does not have the offset of `before`.

    It is after `before`, and at `after` the latest.
    """
    old, after = utc_offset(zone, before), after.replace(microsecond=0)
    before = before.replace(microsecond=0)
    while after - before > _SECOND:
        middle = (before + (after - before) / 2).replace(microsecond=0)
        if utc_offset(zone, middle) == old:
            before = middle
        else:
            after = middle
    return after


def utc_offset(zone: ZoneInfo, instant: datetime) -> timedelta:
    return instant.astimezone(zone).utcoffset() or timedelta(0)


def _start_of_year(year: int) -> datetime:
    """Returns the start of a year, or the calendar's last second beyond its end."""
    return datetime(year, 1, 1, tzinfo=UTC) if year <= MAXYEAR else datetime.max.replace(tzinfo=UTC)
