"""Totals: sums over the ledger, never counted beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from accounting.ledger.ledger import COLLECTION
from accounting.usage import UsageTotals

# The name a reader sees, and the ledger expression it groups by.
GROUPS: Mapping[str, Any] = {
    "run_id": "$run_id",
    "app_id": "$app_id",
    "workflow": "$workflow",
    "model": "$model",
    "provider": "$provider",
    "agent": "$agent",
    "trigger_type": "$trigger_type",
    "day": {"$dateToString": {"date": "$at", "format": "%Y-%m-%d"}},
    "hour": {"$dateToString": {"date": "$at", "format": "%Y-%m-%dT%H:00Z"}},
    "ok": "$ok",
}

_SUMMED = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cost_nano_usd",
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which calls are summed. What is None matches everything; `since` and `until` are about when a call began."""

    app_id: str | None = None
    workflow: str | None = None
    agent: str | None = None
    model: str | None = None
    provider: str | None = None
    trigger_type: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def query(self) -> dict[str, Any]:
        names = ("app_id", "workflow", "agent", "model", "provider", "trigger_type")
        query = {name: value for name in names if (value := getattr(self, name)) is not None}
        bounds = {"$gte": self.since, "$lt": self.until}
        within = {sign: value for sign, value in bounds.items() if value is not None}
        return {**query, "at": within} if within else query


EVERYTHING = Wanted()


def totals_pipeline(keys: Sequence[str], match: Mapping[str, Any]) -> list[dict[str, Any]]:
    group: dict[str, Any] = {
        "_id": {key: GROUPS[key] for key in keys},
        "calls": {"$sum": 1},
        "missing": {"$sum": {"$cond": [{"$eq": ["$status", "missing"]}, 1, 0]}},
        "estimated": {"$sum": {"$cond": [{"$eq": ["$status", "estimated"]}, 1, 0]}},
        # A call without an answer costs nothing; one with an answer and no price costs nobody knows what.
        "unpriced": {
            "$sum": {"$cond": [{"$and": [{"$eq": ["$cost_nano_usd", None]}, {"$ne": ["$status", "missing"]}]}, 1, 0]}
        },
        **{name: {"$sum": f"${name}"} for name in _SUMMED},
    }
    return [{"$match": dict(match)}, {"$group": group}, {"$sort": {f"_id.{key}": 1 for key in keys} or {"_id": 1}}]


async def usage_totals(
    database: AsyncDatabase[dict[str, Any]], keys: Sequence[str], wanted: Wanted = EVERYTHING
) -> list[UsageTotals]:
    rows = await database[COLLECTION].aggregate(totals_pipeline(keys, wanted.query()))
    return [_totals(row) async for row in rows]


async def run_totals(database: AsyncDatabase[dict[str, Any]], run_id: str) -> UsageTotals:
    """What a run document's `usage` says when its run ends or parks."""
    [totals] = await totals_of_runs(database, [run_id])
    return totals


async def totals_of_runs(database: AsyncDatabase[dict[str, Any]], run_ids: Sequence[str]) -> list[UsageTotals]:
    """Of each, in their order."""
    pipeline = totals_pipeline(["run_id"], {"run_id": {"$in": [*run_ids]}})
    rows = await database[COLLECTION].aggregate(pipeline)
    found = {row["_id"]["run_id"]: _totals({**row, "_id": {}}) async for row in rows}
    return [found.get(run_id, UsageTotals()) for run_id in run_ids]


def _totals(row: dict[str, Any]) -> UsageTotals:
    return UsageTotals(key=row.pop("_id"), **{name: int(value) for name, value in row.items()})
