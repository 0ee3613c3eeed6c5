"""Overlap: what becomes of a tick while a run of the same trigger and app still goes on.

`skip` starts nothing; `buffer_one` lets one wait behind it; `cancel_previous` stops it, and the new run starts when it
has let go. The last two give their runs one order key: the store lets one of them be worked on at a time.
"""

from collections.abc import Mapping, Sequence

from triggers.schedule.schedules import spec_of
from triggers.schedule.skips import BUFFER_FULL, OVERLAP
from triggers.schedule.ticks import Tick
from workers.control.cancelling import cancel
from workers.control.errors import RefusedError, RunNotFoundError
from workers.store.run_store import RunStore
from workers.store.trigger_runs import TriggerRuns
from workers.together import together

MOST_CANCELLED = 100  # at once; more go on side by side only where somebody changed the overlap from `allow`
BY = "its schedule, which starts the next one"

BACKFILLED = "backfill_"  # a correlation id begins with it

_ROOM = {"skip": (1, OVERLAP), "buffer_one": (2, BUFFER_FULL)}
Place = tuple[str, str, str]


async def refusals(runs: RunStore, ticks: Sequence[Tick]) -> Mapping[Tick, str]:
    """The ticks that start nothing because of runs that still go on, each with its reason."""
    asked = [tick for tick in ticks if spec_of(tick.trigger).overlap in _ROOM]
    # Nearly always nothing goes on, which an index says alone.
    busy = await _unfinished(runs, asked)
    crowded = [tick for tick in asked if _place(tick) in busy]
    others = await _unfinished(runs, crowded, beside=[tick.request.dedupe_key for tick in crowded])
    rooms = {tick: _ROOM[spec_of(tick.trigger).overlap] for tick in crowded}
    return {tick: why for tick, (room, why) in rooms.items() if others.get(_place(tick), 0) >= room}


async def make_way(runs: RunStore, tick: Tick) -> int:
    """Cancels what was started before; how many runs that were."""
    if spec_of(tick.trigger).overlap != "cancel_previous":
        return 0
    found = await TriggerRuns(runs, backfill_prefix=BACKFILLED).find_earlier(
        tick.trigger.workflow,
        tick.trigger.spec.name,
        tick.app_id,
        other_than=tick.request.dedupe_key,
        nominal=tick.nominal,
        limit=MOST_CANCELLED,
    )
    return sum(await together(_cancelled(runs, run_id) for run_id in found))


async def _cancelled(runs: RunStore, run_id: str) -> bool:
    try:
        return (await cancel(runs, run_id, by=BY)).changed
    except (RefusedError, RunNotFoundError):  # it has ended meanwhile
        return False


async def _unfinished(
    runs: RunStore, ticks: Sequence[Tick], *, beside: Sequence[str] | None = None
) -> Mapping[Place, int]:
    """Counts the runs that still go on: one question for all triggers of a workflow."""
    by_workflow: dict[str, list[Tick]] = {}
    for tick in ticks:
        by_workflow.setdefault(tick.trigger.workflow, []).append(tick)
    found = await together(_unfinished_of(runs, workflow, some, beside) for workflow, some in by_workflow.items())
    return {place: count for counts in found for place, count in counts.items()}


async def _unfinished_of(
    runs: RunStore, workflow: str, ticks: Sequence[Tick], beside: Sequence[str] | None
) -> Mapping[Place, int]:
    counts = await TriggerRuns(runs, backfill_prefix=BACKFILLED).count_unfinished(
        workflow,
        triggers={tick.trigger.spec.name for tick in ticks},
        apps={tick.app_id for tick in ticks},
        beside=beside,
    )
    return {(workflow, trigger, app_id): count for (trigger, app_id), count in counts.items()}


def _place(tick: Tick) -> Place:
    return tick.trigger.workflow, tick.trigger.spec.name, tick.app_id
