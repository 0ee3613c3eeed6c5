"""Overlap: what becomes of a tick while a run of the same trigger and app still goes on.

`skip` starts nothing; `buffer_one` lets one wait behind it; `cancel_previous` stops it, and the new run starts when it
has let go. The last two give their runs one order key: the store lets one of them be worked on at a time.
"""

from collections.abc import Mapping, Sequence

from accounting.infra.aio import gather_all
from triggers.schedule.schedule_triggers import spec_of
from triggers.schedule.tick_plan import BUFFER_FULL, OVERLAP
from triggers.schedule.ticks import Tick
from workers.control.cancelling import cancel
from workers.control.errors import RefusedError, RunNotFoundError
from workers.store.run_store import RunStore
from workers.store.trigger_runs import TriggerRuns

MAX_CANCELLED = 100  # at once; more go on side by side only where somebody changed the overlap from `allow`
CANCELLED_BY = "its schedule, which starts the next one"

BACKFILL_PREFIX = "backfill_"  # a correlation id begins with it

_MAX_UNFINISHED = {"skip": (1, OVERLAP), "buffer_one": (2, BUFFER_FULL)}
RunScope = tuple[str, str, str]


async def find_overlaps(runs: RunStore, ticks: Sequence[Tick]) -> Mapping[Tick, str]:
    """The ticks that start nothing because of runs that still go on, each with its reason."""
    asked = [tick for tick in ticks if spec_of(tick.trigger).overlap in _MAX_UNFINISHED]
    # Nearly always nothing goes on, which an index says alone.
    busy = await _count_unfinished(runs, asked)
    crowded = [tick for tick in asked if _scope_of(tick) in busy]
    others = await _count_unfinished(runs, crowded, beside=[tick.request.dedupe_key for tick in crowded])
    rooms = {tick: _MAX_UNFINISHED[spec_of(tick.trigger).overlap] for tick in crowded}
    return {tick: why for tick, (room, why) in rooms.items() if others.get(_scope_of(tick), 0) >= room}


async def cancel_previous(runs: RunStore, tick: Tick) -> int:
    """Cancels what was started before; how many runs that were."""
    if spec_of(tick.trigger).overlap != "cancel_previous":
        return 0
    found = await TriggerRuns(runs, backfill_prefix=BACKFILL_PREFIX).find_earlier(
        tick.trigger.workflow,
        tick.trigger.spec.name,
        tick.app_id,
        other_than=tick.request.dedupe_key,
        nominal=tick.nominal,
        limit=MAX_CANCELLED,
    )
    return sum(await gather_all(_try_cancel(runs, run_id) for run_id in found))


async def _try_cancel(runs: RunStore, run_id: str) -> bool:
    try:
        return (await cancel(runs, run_id, by=CANCELLED_BY)).changed
    except (RefusedError, RunNotFoundError):  # it has ended meanwhile
        return False


async def _count_unfinished(
    runs: RunStore, ticks: Sequence[Tick], *, beside: Sequence[str] | None = None
) -> Mapping[RunScope, int]:
    """Counts the runs that still go on: one question for all triggers of a workflow."""
    by_workflow: dict[str, list[Tick]] = {}
    for tick in ticks:
        by_workflow.setdefault(tick.trigger.workflow, []).append(tick)
    found = await gather_all(
        _count_unfinished_of_workflow(runs, workflow, some, beside) for workflow, some in by_workflow.items()
    )
    return {place: count for counts in found for place, count in counts.items()}


async def _count_unfinished_of_workflow(
    runs: RunStore, workflow: str, ticks: Sequence[Tick], beside: Sequence[str] | None
) -> Mapping[RunScope, int]:
    counts = await TriggerRuns(runs, backfill_prefix=BACKFILL_PREFIX).count_unfinished(
        workflow,
        triggers={tick.trigger.spec.name for tick in ticks},
        apps={tick.app_id for tick in ticks},
        beside=beside,
    )
    return {(workflow, trigger, app_id): count for (trigger, app_id), count in counts.items()}


def _scope_of(tick: Tick) -> RunScope:
    return tick.trigger.workflow, tick.trigger.spec.name, tick.app_id
