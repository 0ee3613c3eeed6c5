"""Values of trigger specs: durations, times, expressions and names.

Each has its own error message.
"""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, PlainSerializer, WithJsonSchema

from workflows.package.jmespath_problems import find_jmespath_problem

NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_SECONDS_BY_UNIT = {"d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 0.001}
_DURATION = re.compile(r"\s*" + "".join(rf"(?:(\d+(?:\.\d+)?)\s*{unit}\s*)?" for unit in _SECONDS_BY_UNIT))
UNION_TAGS = ("<list>", "<collection>")  # of values with two forms; removed from error messages
MAX_DURATION_S = 3650 * 86400


class SpecFieldError(ValueError):
    """Several fields contradict each other; `field` is the one to report."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def parse_duration(value: object) -> timedelta:
    """Parses `15m`, `60s` or `1h30m`; a bare number is seconds."""
    if isinstance(value, timedelta):
        return value
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is not None and any(match.groups()):
        numbers = zip(match.groups("0"), _SECONDS_BY_UNIT.values(), strict=True)
        seconds = sum(float(number) * unit_s for number, unit_s in numbers)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value
    else:
        raise ValueError("write a duration such as 30s, 15m or 1h")
    if not 0 <= seconds <= MAX_DURATION_S:
        raise ValueError("write a duration from 0s to 3650d")
    return timedelta(seconds=seconds)


def format_duration(duration: timedelta) -> str:
    """Formats a duration as `15m`, `1m30s` or `250ms`.

    `parse_duration` reads the same form.
    """
    if timedelta(0) < duration < timedelta(seconds=1):
        return f"{duration / timedelta(milliseconds=1):g}ms"
    minutes, seconds = divmod(duration, timedelta(minutes=1))
    hours, minutes = divmod(minutes, 60)
    whole = {"d": hours // 24, "h": hours % 24, "m": minutes}
    rest = f"{seconds.total_seconds():.6f}".rstrip("0").rstrip(".")
    parts = [f"{number}{unit}" for unit, number in whole.items() if number] + ([f"{rest}s"] if rest != "0" else [])
    return "".join(parts) or "0s"


def parse_datetime(value: object) -> datetime:
    """Parses a date, or date and time.

    Without an offset the spec's zone applies later.
    """
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)  # noqa: DTZ001 -- the spec's zone is applied later
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value.strip())
        except ValueError:
            pass
    raise ValueError("write a time such as 2026-12-24T18:00 or 2026-12-24T18:00+01:00")


def to_utc(time: datetime, timezone: str) -> datetime:
    """Converts to UTC.

    A skipped wall-clock time becomes the instant that it would be without the change.
    """
    if time.tzinfo is None:
        time = time.replace(tzinfo=ZoneInfo(timezone))
    return time.astimezone(UTC)


def _check_expression(text: str) -> str:
    problem = find_jmespath_problem(text)
    if problem is not None:
        raise ValueError(problem)
    return text


def _check_mapped_value(value: Any) -> Any:
    """Checks the expressions in a value: strings that begin with `=`.

    Anything else is a literal.
    """
    if isinstance(value, str) and value.startswith("="):
        _check_expression(value[1:])
    elif isinstance(value, dict):
        for item in value.values():
            _check_mapped_value(item)
    elif isinstance(value, list):
        for item in value:
            _check_mapped_value(item)
    return value


def _check_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("is not an IANA time zone; write one such as Europe/London") from None
    return name


def _check_name(name: str) -> str:
    if not NAME_PATTERN.fullmatch(name):
        raise ValueError("use at most 100 letters, digits, dots, dashes and underscores; begin with a letter or digit")
    return name


_DURATION_SCHEMA: dict[str, Any] = {"type": ["string", "number"], "description": "Such as 30s, 15m or 1h"}
Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, when_used="json"),
    WithJsonSchema(_DURATION_SCHEMA),
]
_DATETIME_SCHEMA: dict[str, Any] = {"type": "string", "description": "Such as 2026-12-24T18:00, in the trigger's zone"}
DateTimeValue = Annotated[datetime, BeforeValidator(parse_datetime), WithJsonSchema(_DATETIME_SCHEMA)]
Expression = Annotated[str, AfterValidator(_check_expression)]
MappedValue = Annotated[Any, AfterValidator(_check_mapped_value)]
Name = Annotated[str, AfterValidator(_check_name)]
Zone = Annotated[str, AfterValidator(_check_zone)]
