"""Overlap: what a tick does while a run of the same trigger and app is unfinished.

`skip` starts nothing; `buffer_one` queues one run behind it; `cancel_previous` cancels it, and the new run starts when
it has ended. The last two give their runs one order key: the store releases one of them at a time.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from accounting.infra.aio import gather_all
from triggers.schedule.schedule_triggers import spec_of
from triggers.schedule.tick_plan import BUFFER_FULL, OVERLAP
from triggers.schedule.ticks import Tick
from workers.control.cancelling import cancel
from workers.control.errors import RefusedError, RunNotFoundError
from workers.store.run import UNFINISHED
from workers.store.run_store import RunStore

MAX_CANCELLED = 100  # per tick; more run concurrently only after an edit from overlap `allow`
CANCELLED_BY = "its schedule, which starts the next one"

BACKFILL_PREFIX = "backfill_"  # of the correlation ids of a backfill

_NO_BACKFILL = {"$not": re.compile(f"^{BACKFILL_PREFIX}")}
_MAX_UNFINISHED = {"skip": (1, OVERLAP), "buffer_one": (2, BUFFER_FULL)}
_BY_TRIGGER = "by_trigger_and_state"
_UNFINISHED = sorted(state.value for state in UNFINISHED)
RunScope = tuple[str, str, str]


async def find_overlaps(runs: RunStore, ticks: Sequence[Tick]) -> Mapping[Tick, str]:
    """Returns the ticks that unfinished runs prevent, each with its reason."""
    limited = [tick for tick in ticks if spec_of(tick.trigger).overlap in _MAX_UNFINISHED]
    # Nearly always no run is unfinished, which an index alone answers.
    busy = await _count_unfinished(runs, limited, {})
    busy_ticks = [tick for tick in limited if _scope_of(tick) in busy]
    own_keys = [tick.request.dedupe_key for tick in busy_ticks]
    others = await _count_unfinished(
        runs, busy_ticks, {"dedupe_key": {"$nin": own_keys}, "correlation_id": _NO_BACKFILL}
    )
    limits = {tick: _MAX_UNFINISHED[spec_of(tick.trigger).overlap] for tick in busy_ticks}
    return {tick: reason for tick, (limit, reason) in limits.items() if others.get(_scope_of(tick), 0) >= limit}


async def cancel_previous(runs: RunStore, tick: Tick) -> int:
    """Cancels the unfinished runs of earlier ticks, and returns their number."""
    if spec_of(tick.trigger).overlap != "cancel_previous":
        return 0
    earlier = {
        "workflow": tick.trigger.workflow,
        "trigger.name": tick.trigger.spec.name,
        "app_id": tick.app_id,
        "state": {"$in": _UNFINISHED},
        "dedupe_key": {"$ne": tick.request.dedupe_key},
        "correlation_id": _NO_BACKFILL,
        # Fired by hand or for an earlier time: a scheduler that was stopped for a while must cancel nothing newer.
        "trigger.nominal_at": {"$not": {"$gt": tick.nominal}},
    }
    found = await runs.runs.find(earlier, {"_id": 1}, hint=_BY_TRIGGER).limit(MAX_CANCELLED).to_list(None)
    return sum(await gather_all(_try_cancel(runs, run["_id"]) for run in found))


async def _try_cancel(runs: RunStore, run_id: str) -> bool:
    try:
        return (await cancel(runs, run_id, by=CANCELLED_BY)).changed
    except (RefusedError, RunNotFoundError):  # it has ended by now
        return False


async def _count_unfinished(runs: RunStore, ticks: Sequence[Tick], only: Mapping[str, Any]) -> Mapping[RunScope, int]:
    """Counts unfinished runs by scope, with one query per workflow."""
    by_workflow: dict[str, list[Tick]] = {}
    for tick in ticks:
        by_workflow.setdefault(tick.trigger.workflow, []).append(tick)
    found = await gather_all(
        _count_unfinished_of_workflow(runs, workflow, group, only) for workflow, group in by_workflow.items()
    )
    return {scope: count for counts in found for scope, count in counts.items()}


async def _count_unfinished_of_workflow(
    runs: RunStore, workflow: str, ticks: Sequence[Tick], only: Mapping[str, Any]
) -> Mapping[RunScope, int]:
    query = {
        "workflow": workflow,
        "trigger.name": {"$in": sorted({tick.trigger.spec.name for tick in ticks})},
        "app_id": {"$in": sorted({tick.app_id for tick in ticks})},
        "state": {"$in": _UNFINISHED},
        **only,
    }
    pipeline: list[Mapping[str, object]] = [
        {"$match": query},
        {"$group": {"_id": {"trigger": "$trigger.name", "app": "$app_id"}, "runs": {"$sum": 1}}},
    ]
    async with await runs.runs.aggregate(pipeline, hint=_BY_TRIGGER) as rows:
        return {(workflow, row["_id"]["trigger"], row["_id"]["app"]): row["runs"] async for row in rows}


def _scope_of(tick: Tick) -> RunScope:
    return tick.trigger.workflow, tick.trigger.spec.name, tick.app_id
