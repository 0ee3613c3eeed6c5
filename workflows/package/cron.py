"""Cron times: croniter for the fields, our own rule for daylight saving.

Fixed-time jobs follow Debian cron: a time in the spring gap fires at the first valid instant after it, a
time in the autumn fold fires once, at its first occurrence. Jobs with a wildcard minute or hour follow
elapsed time, so they fire in both passes through the fold.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from croniter import CroniterError, croniter

MACROS = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})


def check_cron(expression: str, timezone: str) -> None:
    """Raises ValueError that says what is wrong; an expression that can never fire is refused as well."""
    fields = expression.split()
    if not (len(fields) in (5, 6) or (len(fields) == 1 and fields[0].lower() in MACROS)):
        raise ValueError("cron has 5 fields (minute hour day month weekday), or 6 with seconds first, or a @macro")
    if any(letter in field.upper() for field in fields for letter in ("R", "H")) and not _is_words_only(fields):
        raise ValueError("cron fields with R or H mean a random time; write the time")
    try:
        next_fire(expression, timezone, datetime(2024, 1, 1, tzinfo=UTC))
    except (CroniterError, ValueError, KeyError, StopIteration) as error:
        raise ValueError(f"cron {expression!r} cannot fire: {error}") from None


def _is_words_only(fields: list[str]) -> bool:
    """Month and weekday names (MAR, THU, FRI) hold the letters that mean randomness elsewhere."""
    month, weekday = (fields[-2], fields[-1]) if len(fields) >= 5 else ("", "")
    others = fields[:-2] if len(fields) >= 5 else []
    random_letters = any(letter in field.upper() for field in others for letter in ("R", "H"))
    lone = any(part.upper().startswith(("R(", "H(")) or part.upper() in {"R", "H"} for part in (month, weekday))
    return not random_letters and not lone


def next_fire(expression: str, timezone: str, after: datetime) -> datetime:
    """The first nominal time after `after`, in UTC."""
    return next(fires_after(expression, timezone, after))


def fires_after(expression: str, timezone: str, after: datetime) -> Iterator[datetime]:
    zone = ZoneInfo(timezone)
    fields = expression.split()
    times = croniter(
        expression,
        after.astimezone(zone),
        ret_type=datetime,
        second_at_beginning=len(fields) == 6,
        max_years_between_matches=10,
    )
    fixed = _is_fixed_time(fields)
    last = after
    while True:
        local = times.get_next(datetime)
        nominal = local.astimezone(UTC)
        if nominal <= last:  # a time in the gap is moved, and may land on the one after it
            continue
        if fixed and _is_second_pass(local, zone):
            continue
        last = nominal
        yield nominal


def _is_fixed_time(fields: list[str]) -> bool:
    if len(fields) == 1:
        return fields[0].lower() != "@hourly"
    minute, hour = (fields[1], fields[2]) if len(fields) == 6 else (fields[0], fields[1])
    return "*" not in minute and "*" not in hour


def _is_second_pass(local: datetime, zone: ZoneInfo) -> bool:
    """The wall clock already showed this time one offset earlier today."""
    first = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    return local.astimezone(UTC) - first > timedelta(0) and first.astimezone(zone).replace(
        tzinfo=None
    ) == local.replace(tzinfo=None)
