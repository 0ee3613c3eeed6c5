"""A snapshot of the store: what the exporter shows until the next one, always whole, never half new."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from accounting.totals import usage_totals
from accounting.usage import UsageTotals
from workers.run import TERMINAL, RunState

USAGE_KEYS = ("app_id", "workflow", "model", "provider")
CALL_KEYS = (*USAGE_KEYS, "ok")
AGENT_KEYS = ("workflow", "agent")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Counts by label; taken from runs and ledger, so that a restart changes nothing."""

    runs: Sequence[Mapping[str, Any]]
    usage: Sequence[UsageTotals]
    calls: Sequence[UsageTotals]
    agents: Sequence[UsageTotals]
    in_progress: int
    queued: Mapping[str, int]
    oldest_queued_age_s: float
    parked: int


async def take_snapshot(database: AsyncDatabase[dict[str, Any]]) -> Snapshot:
    runs = database["runs"]
    queued = [row async for row in await runs.aggregate(_queued_pipeline())]
    oldest = min((row["oldest"] for row in queued if row["_id"] == ""), default=None)
    return Snapshot(
        runs=[row async for row in await runs.aggregate(_ended_pipeline())],
        usage=await usage_totals(database, USAGE_KEYS),
        calls=await usage_totals(database, CALL_KEYS),
        agents=await usage_totals(database, AGENT_KEYS),
        in_progress=await runs.count_documents({"state": RunState.RUNNING.value}),
        queued={row["_id"]: row["count"] for row in queued},
        oldest_queued_age_s=0.0 if oldest is None else max((datetime.now(UTC) - oldest).total_seconds(), 0.0),
        parked=await runs.count_documents({"state": RunState.PARKED.value}),
    )


def _ended_pipeline() -> list[dict[str, Any]]:
    """A run is counted when it ends or parks. One that waits for a person goes on, and is counted then."""
    ended = [state.value for state in TERMINAL | {RunState.PARKED}]
    key = {"app": "$app_id", "workflow": "$workflow", "trigger": "$trigger.type", "outcome": "$outcome.kind"}
    return [{"$match": {"state": {"$in": ended}}}, {"$group": {"_id": key, "count": {"$sum": 1}}}]


def _queued_pipeline() -> list[dict[str, Any]]:
    """By hold; the empty name is the queue proper, whose oldest run tells whether workers keep up."""
    due = {"$or": [{"not_before": None}, {"$expr": {"$lte": ["$not_before", "$$NOW"]}}]}
    group = {"_id": {"$ifNull": ["$hold", ""]}, "count": {"$sum": 1}, "oldest": {"$min": "$created_at"}}
    return [{"$match": {"state": RunState.QUEUED.value, **due}}, {"$group": group}]
