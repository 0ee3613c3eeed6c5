"""Usage rows: sorted groups; hours and days are read in small chunks."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo import ASCENDING
from pymongo.asynchronous.database import AsyncDatabase

from accounting.ledger.ledger_rows import COLLECTION
from accounting.totals.row_sums import HOURS, hour_of
from accounting.totals.usage_query import UsageFilter, usage_totals
from accounting.usage import UsageTotals

Database = AsyncDatabase[dict[str, Any]]
Position = list[str]

# The time span of one query: a thousand apps have 24 000 rows of hours in a day.
_CHUNK_BY_KEY = {"hour": timedelta(days=1), "day": timedelta(days=30)}


def order_keys(keys: Sequence[str]) -> list[str]:
    """Sorts times first, so that new usage does not shift earlier pages."""
    return sorted(dict.fromkeys(keys), key=lambda key: key not in _CHUNK_BY_KEY)


def row_position(row: UsageTotals, keys: Sequence[str]) -> Position:
    return [str(row.key[key]) for key in keys]


async def iter_rows(
    database: Database, keys: Sequence[str], usage_filter: UsageFilter, after: Position | None
) -> AsyncGenerator[UsageTotals]:
    """Yields the rows behind the position `after`. `keys` are ordered by `order_keys`."""
    async for chunk in _iter_chunks(database, keys, usage_filter, after):
        rows = [(row_position(row, keys), row) for row in await usage_totals(database, keys, chunk)]
        for position, row in sorted(rows, key=lambda pair: pair[0]):
            if after is None or position > after:
                yield row


async def _iter_chunks(
    database: Database, keys: Sequence[str], usage_filter: UsageFilter, after: Position | None
) -> AsyncGenerator[UsageFilter]:
    if keys[0] not in _CHUNK_BY_KEY:
        yield usage_filter
        return
    bounds = (usage_filter.since, None if after is None else _parse_start(after[0]))
    begin = await _find_next_use(database, usage_filter, max(filter(None, bounds), default=None))
    now = datetime.now(UTC)
    last = now if usage_filter.until is None else min(now, usage_filter.until)
    while begin is not None and begin < last:
        end = begin.replace(hour=0, minute=0, second=0, microsecond=0) + _CHUNK_BY_KEY[keys[0]]
        if end >= last:
            break
        yield replace(usage_filter, since=begin, until=end)
        begin = await _find_next_use(database, usage_filter, end)  # skips years without a call in one query
    if begin is not None and (usage_filter.until is None or begin < usage_filter.until):
        yield replace(usage_filter, since=begin)  # open-ended: another machine's clock may be ahead


async def _find_next_use(database: Database, usage_filter: UsageFilter, since: datetime | None) -> datetime | None:
    """Searches ledger and hours: old rows may be pruned, and hours lag behind."""
    of_app: dict[str, Any] = {} if usage_filter.app_id is None else {"app_id": usage_filter.app_id}
    rows = of_app if since is None else {**of_app, "at": {"$gte": since}}
    hours = of_app if since is None else {**of_app, "hour": {"$gte": hour_of(since)}}
    row = await database[COLLECTION].find_one(rows, {"at": 1}, sort=[("at", ASCENDING)])
    hour = await database[HOURS].find_one(hours, {"hour": 1}, sort=[("hour", ASCENDING)])
    known = (None if row is None else row["at"], None if hour is None else hour["hour"])
    used: datetime | None = min(filter(None, known), default=None)
    return used if used is None or since is None else max(used, since)


def _parse_start(time: str) -> datetime | None:
    """Parses the day or hour of a cursor; None for an invalid one."""
    try:
        return datetime.fromisoformat(time.removesuffix("Z")).replace(tzinfo=UTC)
    except ValueError:
        return None
