"""Cron fields: the wall-clock times that an expression names.

croniter parses the fields; time zones do not matter here. Two differences between croniter and Vixie cron are
corrected: `5-5` is 5 and not the whole range, and of two restricted day fields either one selects a day, unless one of
them begins with `*`.
"""

import re
from bisect import bisect_left
from calendar import monthrange
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from itertools import count

from croniter import CroniterError, croniter

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MAX_BARREN_MONTHS = 41 * 12  # a 29 February on a Sunday comes after 40 years at the latest
LAST = "l"

_WILD = ("*", "?")
_RANGE = re.compile(r"^(\w+)-(\w+)(/\d+)?$")
_NAMES = {
    name: number
    for first, names in (
        (1, "jan feb mar apr may jun jul aug sep oct nov dec"),
        (0, "sun mon tue wed thu fri sat"),
    )
    for number, name in enumerate(names.split(), first)
}
_RANDOM = re.compile(r"^[hr](\(.*\))?(/\d+)?$", re.IGNORECASE)
_NEAREST_WEEKDAY = re.compile(r"^(\d+w|w\d+)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class CronPattern:
    """The wall-clock times that a cron expression names, in ascending order."""

    seconds: Sequence[int]
    minutes: Sequence[int]
    hours: Sequence[int]
    days: frozenset[int]
    includes_last_day: bool
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    nth_weekdays: frozenset[tuple[int, int | str]]  # weekday, and its number in the month or the last one
    matches_either_day: bool
    follows_the_clock: bool  # minute or hour begins with `*`: Debian cron's rule for when the clocks change

    def iter_times_from(self, start: datetime) -> Iterator[datetime]:
        """Yields the times at and after `start`, a whole second without a zone.

        Ends if no further one exists.
        """
        for day in self._iter_days_from(start.date()):
            yield from self._times_of(day, start if day == start.date() else datetime(day.year, day.month, day.day))  # noqa: DTZ001 -- a wall clock's

    def _times_of(self, day: date, start: datetime) -> Iterator[datetime]:
        for hour in _values_from(self.hours, start.hour):
            in_first_hour = hour == start.hour
            for minute in _values_from(self.minutes, start.minute) if in_first_hour else self.minutes:
                in_first_minute = in_first_hour and minute == start.minute
                for second in _values_from(self.seconds, start.second) if in_first_minute else self.seconds:
                    yield datetime(day.year, day.month, day.day, hour, minute, second)  # noqa: DTZ001 -- a wall clock's

    def _iter_days_from(self, first: date) -> Iterator[date]:
        barren = 0
        for number in count(first.year * 12 + first.month - 1):
            year, month = number // 12, number % 12 + 1
            if year > date.max.year or barren > MAX_BARREN_MONTHS:
                return
            barren += 1
            if month not in self.months:
                continue
            earliest = first.day if (year, month) == (first.year, first.month) else 1
            for day in self._iter_days_of(year, month, earliest):
                barren = 0
                yield date(year, month, day)

    def _iter_days_of(self, year: int, month: int, earliest: int) -> Iterator[int]:
        first_weekday, length = monthrange(year, month)
        for day in range(earliest, length + 1):
            weekday = (first_weekday + day) % 7
            by_date = day in self.days or (self.includes_last_day and day == length)
            by_weekday = weekday in self.weekdays or self._is_nth(weekday, day, length)
            if (by_date or by_weekday) if self.matches_either_day else (by_date and by_weekday):
                yield day

    def _is_nth(self, weekday: int, day: int, length: int) -> bool:
        if not self.nth_weekdays:
            return False
        return (weekday, (day - 1) // 7 + 1) in self.nth_weekdays or (
            day + 7 > length and (weekday, LAST) in self.nth_weekdays
        )


@lru_cache(maxsize=20_000)
def parse_cron(expression: str) -> CronPattern:
    """Parses an expression. Raises ValueError with a message for its author."""
    fields = MACROS.get(expression.strip().lower(), expression).split()
    if len(fields) not in (5, 6):
        raise ValueError("cron has 5 fields (minute hour day month weekday), or 6 with seconds first, or a @macro")
    parts = [part for field in fields for part in field.split(",")]
    if any(_RANDOM.match(part) for part in parts):
        raise ValueError("cron fields with R or H stand for a random time; write the time")
    if any(_NEAREST_WEEKDAY.match(part) for part in parts):
        raise ValueError("cron days with W (nearest weekday) are not supported; name days or weekdays")
    plain = " ".join(",".join(_collapse_range(part) for part in field.split(",")) for field in fields)
    try:
        values, nth = croniter.expand(plain, second_at_beginning=len(fields) == 6)
    except (CroniterError, KeyError, TypeError) as error:
        raise ValueError(f"cron {expression!r} cannot be read: {error}") from None
    named: frozenset[tuple[int, int | str]] = frozenset(
        (int(day), number) for day, numbers in nth.items() for number in numbers
    )
    return _build_pattern(values, named, fields)


def _build_pattern(
    values: Sequence[Sequence[int | str]], nth: frozenset[tuple[int, int | str]], fields: Sequence[str]
) -> CronPattern:
    minute, hour, day, _, weekday = fields[-5:]
    return CronPattern(
        seconds=_field_numbers(values[5], 0, 59) if len(fields) == 6 else (0,),
        minutes=_field_numbers(values[0], 0, 59),
        hours=_field_numbers(values[1], 0, 23),
        days=frozenset(_field_numbers(values[2], 1, 31)),
        includes_last_day=LAST in values[2],
        months=frozenset(_field_numbers(values[3], 1, 12)),
        weekdays=frozenset(_field_numbers(values[4], 0, 6)) - {weekday_number for weekday_number, _ in nth},
        nth_weekdays=nth,
        matches_either_day=not day.startswith(_WILD) and not weekday.startswith(_WILD),
        follows_the_clock=minute.startswith("*") or hour.startswith("*"),
    )


def _collapse_range(part: str) -> str:
    """Replaces a range of one value, such as `5-05` or `mon-1`, by the value."""
    bounds = _RANGE.match(part)
    return bounds[1] if bounds is not None and _field_value(bounds[1]) == _field_value(bounds[2]) else part


def _field_value(text: str) -> int | str:
    lower = text.lower()
    return int(lower) if lower.isascii() and lower.isdigit() else _NAMES.get(lower, lower)


def _field_numbers(values: Sequence[int | str], first: int, last: int) -> tuple[int, ...]:
    if "*" in values:
        return tuple(range(first, last + 1))
    return tuple(sorted(value for value in values if isinstance(value, int)))


def _values_from(values: Sequence[int], first: int) -> Sequence[int]:
    return values[bisect_left(values, first) :]
