"""Overlap: what becomes of a tick while a run of the same trigger and app still goes on.

`skip` starts nothing; `buffer_one` lets one wait behind it; `cancel_previous` stops it, and the new run starts when it
has let go. The last two give their runs one order key: the store lets one of them be worked on at a time.
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

MAX_CANCELLED = 100  # at once; more go on side by side only where somebody changed the overlap from `allow`
CANCELLED_BY = "its schedule, which starts the next one"

BACKFILL_PREFIX = "backfill_"  # a correlation id begins with it

_NO_BACKFILL = {"$not": re.compile(f"^{BACKFILL_PREFIX}")}
_MAX_UNFINISHED = {"skip": (1, OVERLAP), "buffer_one": (2, BUFFER_FULL)}
_BY_TRIGGER = "by_trigger_and_state"
_UNFINISHED = sorted(state.value for state in UNFINISHED)
RunScope = tuple[str, str, str]


async def find_overlaps(runs: RunStore, ticks: Sequence[Tick]) -> Mapping[Tick, str]:
    """The ticks that start nothing because of runs that still go on, each with its reason."""
    asked = [tick for tick in ticks if spec_of(tick.trigger).overlap in _MAX_UNFINISHED]
    # Nearly always nothing goes on, which an index says alone.
    busy = await _count_unfinished(runs, asked, {})
    crowded = [tick for tick in asked if _scope_of(tick) in busy]
    own = [tick.request.dedupe_key for tick in crowded]
    others = await _count_unfinished(runs, crowded, {"dedupe_key": {"$nin": own}, "correlation_id": _NO_BACKFILL})
    rooms = {tick: _MAX_UNFINISHED[spec_of(tick.trigger).overlap] for tick in crowded}
    return {tick: why for tick, (room, why) in rooms.items() if others.get(_scope_of(tick), 0) >= room}


async def cancel_previous(runs: RunStore, tick: Tick) -> int:
    """Cancels what was started before; how many runs that were."""
    if spec_of(tick.trigger).overlap != "cancel_previous":
        return 0
    before = {
        "workflow": tick.trigger.workflow,
        "trigger.name": tick.trigger.spec.name,
        "app_id": tick.app_id,
        "state": {"$in": _UNFINISHED},
        "dedupe_key": {"$ne": tick.request.dedupe_key},
        "correlation_id": _NO_BACKFILL,
        # Started by hand, or for an earlier time: a scheduler that was stopped for a while cancels nothing newer.
        "trigger.nominal_at": {"$not": {"$gt": tick.nominal}},
    }
    found = await runs.runs.find(before, {"_id": 1}, hint=_BY_TRIGGER).limit(MAX_CANCELLED).to_list(None)
    return sum(await gather_all(_try_cancel(runs, run["_id"]) for run in found))


async def _try_cancel(runs: RunStore, run_id: str) -> bool:
    try:
        return (await cancel(runs, run_id, by=CANCELLED_BY)).changed
    except (RefusedError, RunNotFoundError):  # it has ended meanwhile
        return False


async def _count_unfinished(runs: RunStore, ticks: Sequence[Tick], only: Mapping[str, Any]) -> Mapping[RunScope, int]:
    """How many runs still go on where: one question for all triggers of a workflow."""
    by_workflow: dict[str, list[Tick]] = {}
    for tick in ticks:
        by_workflow.setdefault(tick.trigger.workflow, []).append(tick)
    found = await gather_all(
        _count_unfinished_of_workflow(runs, workflow, some, only) for workflow, some in by_workflow.items()
    )
    return {place: count for counts in found for place, count in counts.items()}


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
    each: list[Mapping[str, object]] = [
        {"$match": query},
        {"$group": {"_id": {"trigger": "$trigger.name", "app": "$app_id"}, "runs": {"$sum": 1}}},
    ]
    async with await runs.runs.aggregate(each, hint=_BY_TRIGGER) as places:
        return {(workflow, place["_id"]["trigger"], place["_id"]["app"]): place["runs"] async for place in places}


def _scope_of(tick: Tick) -> RunScope:
    return tick.trigger.workflow, tick.trigger.spec.name, tick.app_id
