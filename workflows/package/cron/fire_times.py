"""Cron times: croniter for the fields, our own rule for daylight saving.

Fixed-time jobs follow Debian cron: a time in the spring gap fires at the first valid instant after it, a time in the
autumn fold fires once, at its first occurrence. Jobs whose minute or hour begins with `*` follow elapsed time: they
fire whenever the clock on the wall shows a time of theirs, so in both passes through the fold and not in the gap.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from accounting.infra.zone_changes import find_last_change, find_offset_period
from workflows.package.cron.cron_fields import CronPattern, parse_cron

_SECOND = timedelta(seconds=1)


def check_cron(expression: str, timezone: str) -> None:
    """Raises ValueError that says what is wrong; an expression that can never fire is refused as well."""
    if next_fire(expression, timezone, datetime(2024, 1, 1, tzinfo=UTC)) is None:
        raise ValueError(f"cron {expression!r} can never fire: no date is like that")


def next_fire(expression: str, timezone: str, after: datetime) -> datetime | None:
    """The first nominal time after `after`, in UTC."""
    return next(iter_fires_after(expression, timezone, after), None)


def iter_fires_after(expression: str, timezone: str, after: datetime) -> Iterator[datetime]:
    """All nominal times later than `after`, in order, until the calendar ends."""
    pattern = parse_cron(expression)
    fires = _iter_by_elapsed_time if pattern.follows_the_clock else _iter_by_wall_time
    try:
        yield from fires(pattern, timezone, after.astimezone(UTC))
    except OverflowError:  # the year 10000
        return


def _iter_by_elapsed_time(pattern: CronPattern, timezone: str, after: datetime) -> Iterator[datetime]:
    start = after.replace(microsecond=0) + _SECOND
    while True:
        stretch = find_offset_period(timezone, start)
        for time in pattern.iter_times_from((start + stretch.offset).replace(tzinfo=None)):
            instant = time.replace(tzinfo=UTC) - stretch.offset
            if instant >= stretch.end:
                break
            yield instant
        else:
            return
        start = stretch.end  # where the clock may show again what it showed before


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
