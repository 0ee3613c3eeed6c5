"""The export of the ledger: its closed rows as billing events in the order of time."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from pymongo import ASCENDING
from pymongo.asynchronous.database import AsyncDatabase

from accounting.billing.billing_event import FIELDS, billed_nano_usd, to_billing_event
from accounting.billing.outbox import Outbox
from accounting.ledger.ledger_rows import COLLECTION, NOT_OPEN
from accounting.totals.usage_query import UsageFilter
from accounting.usage import NANO_PER_USD

BATCH_SIZE = 1_000


def _query(usage_filter: UsageFilter) -> dict[str, Any]:
    """Builds the query. It leaves out open rows, as their cost is still unknown."""
    return {**usage_filter.query(), "rollup": NOT_OPEN}


async def read_ledger_rows(
    database: AsyncDatabase[dict[str, Any]], usage_filter: UsageFilter
) -> AsyncIterator[Mapping[str, Any]]:
    rows = database[COLLECTION].find(_query(usage_filter), batch_size=BATCH_SIZE, allow_disk_use=True)
    async for row in rows.sort("at", ASCENDING):
        yield row


async def count_rows(database: AsyncDatabase[dict[str, Any]], usage_filter: UsageFilter) -> int:
    return await database[COLLECTION].count_documents(_query(usage_filter))


def to_json_line(row: Mapping[str, Any]) -> str:
    return json.dumps(to_billing_event(row), ensure_ascii=False)


def to_csv_row(row: Mapping[str, Any]) -> list[Any]:
    """Returns the cells in the order of FIELDS.

    USD has nine decimal places, so that sums are exact.
    """
    event = to_billing_event(row)
    nano_usd = billed_nano_usd(row)
    event["cost_usd"] = None if nano_usd is None else f"{nano_usd // NANO_PER_USD}.{nano_usd % NANO_PER_USD:09d}"
    event["ok"] = "true" if event["ok"] else "false"
    return [event[name] for name in FIELDS]


async def resend_rows(
    database: AsyncDatabase[dict[str, Any]], usage_filter: UsageFilter, *, on_progress: Callable[[int], None]
) -> int:
    """Puts rows into the outbox again and returns how many.

    `on_progress` gets the count so far.
    """
    outbox = Outbox(database)
    await outbox.ensure_indexes()
    rows: list[Mapping[str, Any]] = []
    count = 0
    async for row in read_ledger_rows(database, usage_filter):
        rows.append(row)
        if len(rows) == BATCH_SIZE:
            count += len(rows)
            await outbox.add(rows, None)
            on_progress(count)
            rows = []
    await outbox.add(rows, None)
    return count + len(rows)
