"""Retry-After: how long a server asks to be left alone."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{0,9})?")


def parse_retry_after(header: str, *, now: datetime) -> float | None:
    """Seconds or a date; nothing that is over. None: it says nothing, or what nobody can read."""
    header = header.strip()
    if _SECONDS.fullmatch(header):
        return float(header)
    try:
        at = parsedate_to_datetime(header)
        return max((at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds(), 0.0)
    except (ValueError, OverflowError):
        return None
