"""A snapshot of the store: what the exporter shows until the next one, always whole, never half new."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import OperationFailure, WTimeoutError

from accounting.totals.reading import usage_totals
from accounting.usage import UsageTotals
from ops.exporter.pauses import count_pauses
from workers.reconciling.retention import ROLLUPS
from workers.store.run import TERMINAL, HoldKind, RunState

# One scan of the ledger for all metrics: they are sums over these groups, of which there are few.
USAGE_KEYS = ("app_id", "workflow", "model", "provider", "ok", "agent")
# A run is counted when it ends or parks. One that waits for a person goes on, and is counted then.
ENDED = frozenset(state.value for state in TERMINAL | {RunState.PARKED})

# All there are: named, so that an index answers instead of a scan.
HOLDS = [None, *(kind.value for kind in HoldKind)]

Rows = Sequence[Mapping[str, Any]]
# For a moment after a collection or an index was created, no snapshot shows it.
SNAPSHOT_UNAVAILABLE = 246
TRIES, PAUSE_S = 20, 0.1


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Counts by label; taken from runs, roll-ups and ledger, so that neither a restart nor retention changes one."""

    runs: Sequence[Mapping[str, Any]]
    usage: Sequence[UsageTotals]
    in_progress: int
    queued: Mapping[str, int]
    oldest_queued_age_s: float
    parked: int
    paused: Mapping[str, int] = field(default_factory=dict)  # pauses of triggers, by reason


async def take_snapshot(database: AsyncDatabase[dict[str, Any]]) -> Snapshot:
    counted, rolled_up, queued = await _at_one_time(database)
    oldest = min((row["oldest"] for row in queued if row["_id"] == ""), default=None)
    return Snapshot(
        runs=[*(row for row in counted if row["_id"]["state"] in ENDED), *rolled_up],
        usage=await usage_totals(database, USAGE_KEYS),
        in_progress=_in_state(counted, RunState.RUNNING),
        queued={row["_id"]: row["count"] for row in queued},
        oldest_queued_age_s=0.0 if oldest is None else max((datetime.now(UTC) - oldest).total_seconds(), 0.0),
        parked=_in_state(counted, RunState.PARKED),
        paused=await count_pauses(database),
    )


async def _at_one_time(database: AsyncDatabase[dict[str, Any]]) -> tuple[Rows, Rows, Rows]:
    """A run that is pruned meanwhile is counted as a run or in the roll-ups, never in both or in neither."""
    for _ in range(TRIES):
        try:
            async with database.client.start_session(snapshot=True) as session:
                counted = await database["runs"].aggregate(_runs_pipeline(), session=session)
                rolled_up = database[ROLLUPS].find(session=session)
                queued = await database["runs"].aggregate(_queued_pipeline(), session=session)
                return await counted.to_list(None), await rolled_up.to_list(None), await queued.to_list(None)
        except OperationFailure as error:
            if error.code != SNAPSHOT_UNAVAILABLE:
                raise
            await asyncio.sleep(PAUSE_S)
    raise WTimeoutError("collections or indexes are being created; their snapshot is not on a majority yet")


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
    """By hold; the empty name is the queue proper, whose oldest run tells whether workers keep up: by when it became
    ready, since it may have been held for hours, or wait for the run before it."""
    due = {"$or": [{"not_before": None}, {"$expr": {"$lte": ["$not_before", "$$NOW"]}}]}
    since = {"$max": ["$created_at", "$not_before", "$ready_at"]}
    group = {"_id": {"$ifNull": ["$hold", ""]}, "count": {"$sum": 1}, "oldest": {"$min": since}}
    return [{"$match": {"state": RunState.QUEUED.value, "hold": {"$in": HOLDS}, **due}}, {"$group": group}]
