"""Sums: what a row of the ledger adds to the totals, and where the totals are kept.

A row that is due adds itself. One that corrects was added before as a call without usage, and adds the difference.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote

from pymongo import ASCENDING, IndexModel

from accounting.ledger.rows import CORRECTS, Row

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
    IndexModel([("seq", ASCENDING)], name=BY_CHANGE),  # what an exporter has not seen yet
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
    """No two sets of labels share one, whatever their names are made of."""
    parts = [] if hour is None else [hour.strftime("%Y-%m-%dT%HZ")]
    return "/".join([*parts, *(quote(str(each), safe="") for each in labels)])


def label_fields(labels: LabelValues, hour: datetime | None = None) -> dict[str, Any]:
    by_name = dict(zip(LABELS, labels, strict=True))
    return by_name if hour is None else {"hour": hour, **by_name}


def sums_of(row: Row) -> Sums:
    """What the row is worth, whatever was added of it before."""
    missing = row["status"] == "missing"
    cost = row["cost_nano_usd"]
    return {
        "calls": 1,
        "missing": int(missing),
        "estimated": int(row["status"] == "estimated"),
        # A call without an answer costs nothing; one with an answer and no price costs nobody knows what.
        "unpriced": int(cost is None and not missing),
        **{name: row[name] for name in TOKENS},
        "cost_nano_usd": cost or 0,
    }


def reversal_of(row: Row) -> tuple[Row, Sums]:
    """Of a row that corrects: what it was when it was added, a call that had failed without usage."""
    return {**row, "ok": False}, {"calls": -1, "missing": -1}


def additions(rows: Iterable[Row]) -> Iterator[tuple[Row, Sums]]:
    """What is to be added now, and to the sums of which row's labels."""
    for row in rows:
        if row["rollup"] == CORRECTS:
            yield reversal_of(row)
        yield row, sums_of(row)


def add_sums(target: dict[Key, Sums], key: Key, sums: Mapping[str, int]) -> None:
    have = target.setdefault(key, dict.fromkeys(SUMMED, 0))
    for name, value in sums.items():
        have[name] += value
