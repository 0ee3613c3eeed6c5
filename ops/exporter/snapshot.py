"""A snapshot of the store: what the exporter shows until the next one, always whole, never half new."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from accounting.totals import usage_totals
from accounting.usage import UsageTotals
from workers.run import TERMINAL, RunState

# One scan of the ledger for all metrics: they are sums over these groups, of which there are few.
USAGE_KEYS = ("app_id", "workflow", "model", "provider", "ok", "agent")
# A run is counted when it ends or parks. One that waits for a person goes on, and is counted then.
ENDED = frozenset(state.value for state in TERMINAL | {RunState.PARKED})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Counts by label; taken from runs and ledger, so that a restart changes nothing."""

    runs: Sequence[Mapping[str, Any]]
    usage: Sequence[UsageTotals]
    in_progress: int
    queued: Mapping[str, int]
    oldest_queued_age_s: float
    parked: int


async def take_snapshot(database: AsyncDatabase[dict[str, Any]]) -> Snapshot:
    runs = database["runs"]
    counted = [row async for row in await runs.aggregate(_runs_pipeline())]
    queued = [row async for row in await runs.aggregate(_queued_pipeline())]
    oldest = min((row["oldest"] for row in queued if row["_id"] == ""), default=None)
    return Snapshot(
        runs=[row for row in counted if row["_id"]["state"] in ENDED],
        usage=await usage_totals(database, USAGE_KEYS),
        in_progress=_in_state(counted, RunState.RUNNING),
        queued={row["_id"]: row["count"] for row in queued},
        oldest_queued_age_s=0.0 if oldest is None else max((datetime.now(UTC) - oldest).total_seconds(), 0.0),
        parked=_in_state(counted, RunState.PARKED),
    )


def _in_state(counted: Sequence[Mapping[str, Any]], state: RunState) -> int:
    return sum(row["count"] for row in counted if row["_id"]["state"] == state.value)


def _runs_pipeline() -> list[dict[str, Any]]:
    """Without a filter: nearly all runs have ended, and fetching those by an index takes longer than a scan."""
    key = {
        "app": "$app_id",
        "workflow": "$workflow",
        "trigger": "$trigger.type",
        "outcome": "$outcome.kind",
        "state": "$state",
    }
    return [{"$group": {"_id": key, "count": {"$sum": 1}}}]


def _queued_pipeline() -> list[dict[str, Any]]:
    """By hold; the empty name is the queue proper, whose oldest run tells whether workers keep up."""
    due = {"$or": [{"not_before": None}, {"$expr": {"$lte": ["$not_before", "$$NOW"]}}]}
    group = {"_id": {"$ifNull": ["$hold", ""]}, "count": {"$sum": 1}, "oldest": {"$min": "$created_at"}}
    return [{"$match": {"state": RunState.QUEUED.value, **due}}, {"$group": group}]
