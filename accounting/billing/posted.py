"""What became of a post: a value, and what an answer's head says about later."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

GONE = 410
# Servers that ask for less: their wish is about all that is sent to them, not about one batch.
THROTTLING = frozenset({429, 502, 503, 504})
_SECONDS = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Posted:
    """`status` is None where no answer came. `what` is for people."""

    status: int | None
    what: str
    retry_after_s: float | None = None

    @property
    def delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def retry_after_s(header: str, *, now: datetime) -> float | None:
    """Seconds or a date; nothing that is over."""
    header = header.strip()
    if _SECONDS.fullmatch(header):
        return float(header)
    try:
        at = parsedate_to_datetime(header)
        return max((at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds(), 0.0)
    except (ValueError, OverflowError):
        return None
