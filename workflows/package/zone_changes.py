"""Zone changes: when a zone's clocks change, found once for each year and remembered."""

from dataclasses import dataclass
from datetime import MAXYEAR, UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

_LOOK_EVERY = timedelta(days=3)  # since 1970 no zone has changed its clocks twice within six days
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Of one offset from UTC: `wall = instant + offset` until `end`."""

    offset: timedelta
    end: datetime


def stretch_at(timezone: str, instant: datetime) -> Stretch:
    """It ends with a change of the clocks, or with the year in UTC."""
    for change in changes_in(timezone, instant.year):
        if change > instant:
            return Stretch(_offset(timezone, instant), change)
    return Stretch(_offset(timezone, instant), _year_begins(instant.year + 1))


def last_change(timezone: str, instant: datetime) -> datetime | None:
    """The one at `instant` or before it in the same year."""
    return max((change for change in changes_in(timezone, instant.year) if change <= instant), default=None)


@lru_cache(maxsize=4096)
def changes_in(timezone: str, year: int) -> tuple[datetime, ...]:
    """The first instants with another offset than the second before."""
    found = []
    earlier = _year_begins(year) - _SECOND
    end = _year_begins(year + 1) - _SECOND
    while earlier < end:
        later = min(earlier + _LOOK_EVERY, end)
        if _offset(timezone, earlier) != _offset(timezone, later):
            found.append(_change_between(timezone, earlier, later))
        earlier = later
    return tuple(found)


def _change_between(timezone: str, before: datetime, after: datetime) -> datetime:
    old = _offset(timezone, before)
    while after - before > _SECOND:
        middle = before + (after - before) // 2
        middle = middle.replace(microsecond=0)
        if _offset(timezone, middle) == old:
            before = middle
        else:
            after = middle
    return after


def _offset(timezone: str, instant: datetime) -> timedelta:
    return instant.astimezone(ZoneInfo(timezone)).utcoffset() or timedelta(0)


def _year_begins(year: int) -> datetime:
    """Years beyond the calendar's end begin with its last second: nothing comes after it."""
    return datetime(year, 1, 1, tzinfo=UTC) if year <= MAXYEAR else datetime.max.replace(tzinfo=UTC)
