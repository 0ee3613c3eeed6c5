"""Resending: rows of the ledger in fresh batches, as for a time before billing was switched on.

Their events have the ids that they always have, so that a receiver knows again what it has already.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from accounting.billing.exporting import BATCH_SIZE, RowFilter, read_ledger_rows
from accounting.billing.outbox import Outbox


async def resend_rows(database: AsyncDatabase[dict[str, Any]], row_filter: RowFilter, *, on_progress: Callable[[int], None]) -> int:
    """How many events; `told` hears of them as they go into the outbox."""
    outbox = Outbox(database)
    await outbox.ensure_indexes()
    rows: list[Mapping[str, Any]] = []
    number = 0
    async for row in read_ledger_rows(database, row_filter):
        rows.append(row)
        if len(rows) == BATCH_SIZE:
            number += len(rows)
            await outbox.add(rows, None)
            on_progress(number)
            rows = []
    await outbox.add(rows, None)
    return number + len(rows)
