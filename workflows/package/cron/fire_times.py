"""Cron fire times, with the daylight saving rules of Debian cron.

Fixed-time jobs: a time in the spring gap fires at the first valid instant after it, a time in the autumn fold fires
once, at its first occurrence. Jobs whose minute or hour begins with `*` follow elapsed time: they fire whenever the
wall clock shows one of their times, so twice in the fold and not in the gap.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from accounting.infra.clock_changes import find_last_change, find_offset_period
from workflows.package.cron.cron_fields import CronPattern, parse_cron

_SECOND = timedelta(seconds=1)


def check_cron(expression: str, timezone: str) -> None:
    """Raises ValueError for an invalid expression, and for one that can never fire."""
    if next_fire(expression, timezone, datetime(2024, 1, 1, tzinfo=UTC)) is None:
        raise ValueError(f"cron {expression!r} can never fire: no date matches it")


def next_fire(expression: str, timezone: str, after: datetime) -> datetime | None:
    """Returns the first nominal time after `after`, in UTC."""
    return next(iter_fires_after(expression, timezone, after), None)


def iter_fires_after(expression: str, timezone: str, after: datetime) -> Iterator[datetime]:
    """Yields all nominal times after `after`, in order, until the calendar ends."""
    pattern = parse_cron(expression)
    fires = _iter_by_elapsed_time if pattern.follows_the_clock else _iter_by_wall_time
    try:
        yield from fires(pattern, timezone, after.astimezone(UTC))
    except OverflowError:  # the year 10000
        return


def _iter_by_elapsed_time(pattern: CronPattern, timezone: str, after: datetime) -> Iterator[datetime]:
    start = after.replace(microsecond=0) + _SECOND
    while True:
        period = find_offset_period(timezone, start)
        for time in pattern.iter_times_from((start + period.offset).replace(tzinfo=None)):
            instant = time.replace(tzinfo=UTC) - period.offset
            if instant >= period.end:
                break
            yield instant
        else:
            return
        start = period.end  # from here the clock may repeat times


def _iter_by_wall_time(pattern: CronPattern, timezone: str, after: datetime) -> Iterator[datetime]:
    zone = ZoneInfo(timezone)
    last = after
    for time in pattern.iter_times_from(after.astimezone(zone).replace(tzinfo=None, microsecond=0)):
        instant = time.replace(tzinfo=zone).astimezone(UTC)
        if instant.astimezone(zone).replace(tzinfo=None) != time:  # in a gap
            instant = find_last_change(timezone, instant) or instant
        if instant > last:
            last = instant
            yield instant
