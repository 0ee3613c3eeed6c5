"""Counts of the ledger for the exporter: calls in progress, and rows that are not in the totals yet."""

from dataclasses import dataclass
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from accounting.ledger.ledger_rows import COLLECTION, NOT_ADDED, OPEN

Document = dict[str, Any]

MAX_ROWS_SCANNED = 1_000  # the waiting rows that the roll-up takes next


@dataclass(frozen=True, slots=True)
class LedgerCounts:
    open_calls: int = 0
    waiting_rows: int = 0
    oldest_waiting_s: float = 0.0


async def read_ledger_counts(database: AsyncDatabase[Document]) -> LedgerCounts:
    rows = database[COLLECTION]
    oldest = await rows.aggregate(oldest_waiting_pipeline())
    return LedgerCounts(
        open_calls=await rows.count_documents({"rollup": OPEN}),
        waiting_rows=await rows.count_documents({"rollup": NOT_ADDED}),
        oldest_waiting_s=sum([max(row["age_ms"], 0) async for row in oldest]) / 1000,
    )


def oldest_waiting_pipeline() -> list[Document]:
    return [
        {"$match": {"rollup": NOT_ADDED}},
        {"$limit": MAX_ROWS_SCANNED},
        {"$group": {"_id": None, "oldest": {"$min": "$at"}}},
        {"$project": {"age_ms": {"$subtract": ["$$NOW", "$oldest"]}}},
    ]
