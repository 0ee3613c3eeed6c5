"""Times as text, and ages and dates as users write them."""

from datetime import UTC, datetime
from typing import Any


def format_moment(value: Any) -> str:
    """Format for a table; its columns are in UTC."""
    return value.strftime("%Y-%m-%d %H:%M:%S") if isinstance(value, datetime) else ""


def format_utc(value: Any) -> str:
    return f"{format_moment(value)} UTC" if isinstance(value, datetime) else ""


def format_duration(since: datetime | None, until: datetime | None) -> str:
    if since is None or until is None:
        return ""
    seconds = max((until - since).total_seconds(), 0.0)
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def parse_moment(text: str) -> datetime:
    """Parse an age (7d, 12h) or a date. ValueError, with what to write instead."""
    from workflows.package.trigger_specs.spec_field_types import parse_duration

    try:
        return datetime.now(UTC) - parse_duration(text)
    except ValueError:
        pass
    try:
        day = datetime.fromisoformat(text)
        return day.astimezone(UTC) if day.tzinfo else day.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # the latter at the calendar's ends
        raise ValueError("write a date such as 2026-01-31 or an age such as 7d or 12h") from None
