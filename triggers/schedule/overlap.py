"""Overlap: what a tick does while a run of the same trigger and app is unfinished.

`skip` starts nothing; `buffer_one` queues one run behind it; `cancel_previous` cancels it, and the new run starts when
it has ended. The last two give their runs one order key: the store releases one of them at a time.
"""

from collections.abc import Mapping, Sequence

from accounting.infra.aio import gather_all
from triggers.schedule.schedule_triggers import spec_of
from triggers.schedule.tick_plan import BUFFER_FULL, OVERLAP
from triggers.schedule.tick_requests import Tick
from workers.control.change_result import RefusedError, RunNotFoundError
from workers.control.run_cancellation import cancel
from workers.store.run_store import RunStore
from workers.store.trigger_runs import TriggerRuns

MAX_CANCELLED = 100  # per tick; more run concurrently only after an edit from overlap `allow`
CANCELLED_BY = "its schedule, which starts the next one"

BACKFILL_PREFIX = "backfill_"  # of the correlation ids of a backfill

_MAX_UNFINISHED = {"skip": (1, OVERLAP), "buffer_one": (2, BUFFER_FULL)}
RunScope = tuple[str, str, str]


async def find_overlaps(runs: RunStore, ticks: Sequence[Tick]) -> Mapping[Tick, str]:
    """Returns the ticks that unfinished runs prevent, each with its reason."""
    limited = [tick for tick in ticks if spec_of(tick.trigger).overlap in _MAX_UNFINISHED]
    # Nearly always no run is unfinished, which an index alone answers.
    busy = await _count_unfinished(runs, limited)
    busy_ticks = [tick for tick in limited if _scope_of(tick) in busy]
    others = await _count_unfinished(runs, busy_ticks, beside=[tick.request.dedupe_key for tick in busy_ticks])
    limits = {tick: _MAX_UNFINISHED[spec_of(tick.trigger).overlap] for tick in busy_ticks}
    return {tick: reason for tick, (limit, reason) in limits.items() if others.get(_scope_of(tick), 0) >= limit}


async def cancel_previous(runs: RunStore, tick: Tick) -> int:
    """Cancels the unfinished runs of earlier ticks, and returns their number."""
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
    except (RefusedError, RunNotFoundError):  # it has ended by now
        return False


async def _count_unfinished(
    runs: RunStore, ticks: Sequence[Tick], *, beside: Sequence[str] | None = None
) -> Mapping[RunScope, int]:
    """Counts unfinished runs by scope, with one query per workflow."""
    by_workflow: dict[str, list[Tick]] = {}
    for tick in ticks:
        by_workflow.setdefault(tick.trigger.workflow, []).append(tick)
    found = await gather_all(
        _count_unfinished_of_workflow(runs, workflow, group, beside) for workflow, group in by_workflow.items()
    )
    return {scope: count for counts in found for scope, count in counts.items()}


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
