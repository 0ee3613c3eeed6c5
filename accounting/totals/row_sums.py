"""Row sums: what a row of the ledger adds to the totals, and where they are stored.

A due row adds its own values. A correcting row was added before as a call without usage, and adds the difference.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote

from pymongo import ASCENDING, IndexModel

from accounting.ledger.ledger_rows import CORRECTS, Row

HOURS, TOTALS, STATE = "usage_hours", "usage_totals", "usage_state"
STATE_ID = "totals"

LABELS = ("app_id", "workflow", "agent", "model", "provider", "trigger_type", "ok")
TOKENS = ("input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
SUMMED = ("calls", "missing", "estimated", "unpriced", *TOKENS, "cost_nano_usd")

BY_CHANGE = "by_change"
HOUR_INDEXES = (
    IndexModel([("hour", ASCENDING)], name="by_hour"),
    IndexModel([("app_id", ASCENDING), ("hour", ASCENDING)], name="by_app_and_hour"),
)
TOTAL_INDEXES = (
    IndexModel([("seq", ASCENDING)], name=BY_CHANGE),  # the totals that an exporter has not seen yet
    IndexModel([("app_id", ASCENDING)], name="by_app"),
)

Sums = dict[str, int]
Key = TypeVar("Key")
LabelValues = tuple[Any, ...]


def hour_of(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def labels_of(row: Mapping[str, Any]) -> LabelValues:
    return tuple(row[name] for name in LABELS)


def key_of(labels: Iterable[Any], hour: datetime | None = None) -> str:
    """Builds the document id.

    Two different sets of labels never share one, whatever characters they contain.
    """
    parts = [] if hour is None else [hour.strftime("%Y-%m-%dT%HZ")]
    return "/".join([*parts, *(quote(str(label), safe="") for label in labels)])


def label_fields(labels: LabelValues, hour: datetime | None = None) -> dict[str, Any]:
    by_name = dict(zip(LABELS, labels, strict=True))
    return by_name if hour is None else {"hour": hour, **by_name}


def sums_of(row: Row) -> Sums:
    """Returns the full value of a row, whatever was added of it before."""
    missing = row["status"] == "missing"
    cost = row["cost_nano_usd"]
    return {
        "calls": 1,
        "missing": int(missing),
        "estimated": int(row["status"] == "estimated"),
        # A call without an answer costs nothing. The cost of an answer without a price is unknown.
        "unpriced": int(cost is None and not missing),
        **{name: row[name] for name in TOKENS},
        "cost_nano_usd": cost or 0,
    }


def reversal_of(row: Row) -> tuple[Row, Sums]:
    """Returns what a correcting row was when it was added: a failed call without usage."""
    return {**row, "ok": False}, {"calls": -1, "missing": -1}


def additions(rows: Iterable[Row]) -> Iterator[tuple[Row, Sums]]:
    """Yields what is to be added now, each with the row that has its labels."""
    for row in rows:
        if row["rollup"] == CORRECTS:
            yield reversal_of(row)
        yield row, sums_of(row)


def add_sums(target: dict[Key, Sums], key: Key, sums: Mapping[str, int]) -> None:
    current = target.setdefault(key, dict.fromkeys(SUMMED, 0))
    for name, value in sums.items():
        current[name] += value
