"""An oracle of cron times that checks every minute around clock changes.

It shares no code with the product: it parses fields itself and takes wall-clock times from `zoneinfo` minute by minute.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

MINUTE = timedelta(minutes=1)
# Zones with the moment of a change: into summer time, out of it, or of another kind.
CHANGES = [
    ("America/New_York", "2026-03-08T07:00"),
    ("America/New_York", "2026-11-01T06:00"),
    ("Europe/Berlin", "2026-03-29T01:00"),
    ("Europe/Berlin", "2026-10-25T01:00"),
    ("Europe/London", "2026-03-29T01:00"),
    ("Europe/London", "2026-10-25T01:00"),
    ("America/Santiago", "2026-04-05T03:00"),
    ("America/Santiago", "2026-09-06T04:00"),
    ("Australia/Lord_Howe", "2026-04-04T15:00"),
    ("Australia/Lord_Howe", "2026-10-03T15:30"),
    ("Pacific/Apia", "2011-12-30T10:00"),
    ("Pacific/Apia", "2012-03-31T14:00"),
    ("Africa/Cairo", "2026-04-23T22:00"),
    ("Africa/Cairo", "2026-10-29T21:00"),
]


def numbers(field: str, first: int, last: int) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        bounds, _, step = part.partition("/")
        low, high = (first, last) if bounds == "*" else (int(bounds.split("-")[0]), int(bounds.split("-")[-1]))
        if step and "-" not in bounds and bounds != "*":
            high = last
        found |= set(range(low, high + 1, int(step or 1)))
    return found


@dataclass(frozen=True)
class Window:
    """The minutes around a clock change.

    Each minute with its wall-clock time, and each shown or skipped time with the first minute that shows or follows it.
    """

    shown: Sequence[tuple[datetime, datetime]]
    first: Sequence[tuple[datetime, datetime]]


@cache
def window(zone: str, middle: datetime) -> Window:
    minutes = [middle + number * MINUTE for number in range(-42 * 60, 51 * 60)]
    shown = [(minute, minute.astimezone(ZoneInfo(zone)).replace(tzinfo=None)) for minute in minutes]
    first: dict[datetime, datetime] = {}
    for minute, wall in shown:
        first.setdefault(wall, minute)
    earliest, wall = min(first), max(first)
    after = first[wall]
    everything = []
    while wall >= earliest:
        after = first.get(wall, after)
        everything.append((after, wall))
        wall -= MINUTE
    return Window(shown, everything)


def oracle(cron: str, change: tuple[str, str]) -> list[datetime]:
    minute, hour, day, month, weekday = cron.split()
    seen = window(change[0], at(change))
    times = seen.shown if minute.startswith("*") or hour.startswith("*") else seen.first
    minutes, hours, days = numbers(minute, 0, 59), numbers(hour, 0, 23), numbers(day, 1, 31)
    months, weekdays = numbers(month, 1, 12), {each % 7 for each in numbers(weekday, 0, 7)}
    either = not day.startswith("*") and not weekday.startswith("*")

    def is_day(wall: datetime) -> bool:
        by_day, by_weekday = wall.day in days, wall.isoweekday() % 7 in weekdays
        return wall.month in months and ((by_day or by_weekday) if either else (by_day and by_weekday))

    return sorted({each for each, wall in times if wall.minute in minutes and wall.hour in hours and is_day(wall)})


def at(change: tuple[str, str]) -> datetime:
    return datetime.fromisoformat(change[1]).replace(tzinfo=UTC)


def field(first: int, last: int) -> st.SearchStrategy[str]:
    value = st.integers(first, last).map(str)
    spread = st.tuples(st.integers(first, last), st.integers(first, last), st.integers(1, 7)).map(
        lambda three: f"{min(three[:2])}-{max(three[:2])}/{three[2]}"
    )
    every = st.integers(1, 2 * last).map(lambda step: f"*/{step}")
    return st.one_of(value, value, every, spread, st.lists(value, min_size=2, max_size=3).map(",".join))


crons = st.tuples(
    st.one_of(st.just("*"), field(0, 59)),
    st.one_of(st.just("*"), field(0, 4), field(0, 23)),
    st.one_of(st.just("*"), st.just("*"), field(1, 31)),
    st.just("*"),
    st.one_of(st.just("*"), st.just("*"), field(0, 7)),
).map(" ".join)
