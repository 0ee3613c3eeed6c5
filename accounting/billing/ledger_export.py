"""The export of the ledger: its closed rows as billing events in the order of time."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pymongo import ASCENDING
from pymongo.asynchronous.database import AsyncDatabase

from accounting.billing.billing_event import FIELDS, billed_nano_usd, to_billing_event
from accounting.billing.outbox import Outbox
from accounting.ledger.rows import COLLECTION, NOT_OPEN

BATCH_SIZE = 1_000


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Selects calls. None matches everything.

    `since` and `until` compare with the time at which a call began.
    """

    app_id: str | None = None
    workflow: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def query(self) -> dict[str, Any]:
        """Builds the query. It leaves out open rows, as their cost is still unknown."""
        names = {"app_id": self.app_id, "workflow": self.workflow}
        bounds = {"$gte": self.since, "$lt": self.until}
        within = {sign: at for sign, at in bounds.items() if at is not None}
        query = {name: value for name, value in names.items() if value is not None}
        return {**query, "rollup": NOT_OPEN, **({"at": within} if within else {})}


async def read_ledger_rows(
    database: AsyncDatabase[dict[str, Any]], row_filter: RowFilter
) -> AsyncIterator[Mapping[str, Any]]:
    rows = database[COLLECTION].find(row_filter.query(), batch_size=BATCH_SIZE, allow_disk_use=True)
    async for row in rows.sort("at", ASCENDING):
        yield row


async def count_rows(database: AsyncDatabase[dict[str, Any]], row_filter: RowFilter) -> int:
    return await database[COLLECTION].count_documents(row_filter.query())


def to_json_line(row: Mapping[str, Any]) -> str:
    return json.dumps(to_billing_event(row), ensure_ascii=False)


def to_csv_row(row: Mapping[str, Any]) -> list[Any]:
    """Returns the cells in the order of FIELDS.

    USD has nine decimal places, so that sums are exact.
    """
    event = to_billing_event(row)
    nano_usd = billed_nano_usd(row)
    event["cost_usd"] = None if nano_usd is None else f"{nano_usd // 10**9}.{nano_usd % 10**9:09d}"
    event["ok"] = "true" if event["ok"] else "false"
    return [event[name] for name in FIELDS]


async def resend_rows(
    database: AsyncDatabase[dict[str, Any]], row_filter: RowFilter, *, on_progress: Callable[[int], None]
) -> int:
    """Puts rows into the outbox again and returns how many.

    `on_progress` gets the count so far.
    """
    outbox = Outbox(database)
    await outbox.ensure_indexes()
    rows: list[Mapping[str, Any]] = []
    count = 0
    async for row in read_ledger_rows(database, row_filter):
        rows.append(row)
        if len(rows) == BATCH_SIZE:
            count += len(rows)
            await outbox.add(rows, None)
            on_progress(count)
            rows = []
    await outbox.add(rows, None)
    return count + len(rows)
