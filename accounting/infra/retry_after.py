"""The Retry-After header: how long a server asks its clients to wait."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{0,9})?")


def parse_retry_after(header: str, *, now: datetime) -> float | None:
    """Returns the seconds to wait, 0 for a past date.

    None: the header is empty or invalid.
    """
    header = header.strip()
    if _SECONDS.fullmatch(header):
        return float(header)
    try:
        at = parsedate_to_datetime(header)
        return max((at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds(), 0.0)
    except (ValueError, OverflowError):
        return None
