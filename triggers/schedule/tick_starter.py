"""Starting: ticks become runs, or skips with a reason. Whatever is asked of the store is asked for many at once."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pymongo.errors import OperationFailure

from accounting.infra.aio import gather_all
from accounting.infra.store_errors import is_unavailable
from triggers.acceptance import Acceptance
from triggers.event_expressions import ExpressionError
from triggers.register.trigger_record import Pause
from triggers.register.trigger_store import MAX_PAUSED_APPS, TriggerStore
from triggers.schedule.overlap import cancel_previous, find_overlaps
from triggers.schedule.schedule_store import DueSchedule
from triggers.schedule.schedule_triggers import spec_of
from triggers.schedule.tick_plan import NOT_STORABLE, PAUSED, UNMAPPABLE, Skip
from triggers.schedule.ticks import Tick, make_tick
from workers.store.run_store import RunStore
from workers.store.storable import NotStorableError

log = logging.getLogger(__name__)


PAUSED_BY = "the scheduler"


async def pause_failing(runs: RunStore, triggers: TriggerStore, ticks: Sequence[Tick], now: datetime) -> set[Tick]:
    """Those whose apps have just been paused for their failures."""
    asked = [tick for tick in ticks if spec_of(tick.trigger).pause_after_failures is not None]
    failed = await gather_all(_has_failed_too_often(runs, tick) for tick in asked)
    failing = {tick for tick, too_often in zip(asked, failed, strict=True) if too_often}
    await gather_all(_pause_trigger(triggers, tick, now) for tick in failing)
    return failing


async def _has_failed_too_often(runs: RunStore, tick: Tick) -> bool:
    limit = spec_of(tick.trigger).pause_after_failures or 0
    failures = await runs.failures_in_a_row(
        tick.trigger.workflow,
        tick.trigger.spec.name,
        tick.app_id,
        up_to=limit,
        since=tick.due.record.last_resumed_at(tick.app_id),
    )
    return failures >= limit


async def _pause_trigger(triggers: TriggerStore, tick: Tick, now: datetime) -> None:
    limit = spec_of(tick.trigger).pause_after_failures
    pause = Pause(now, PAUSED_BY, f"its last {limit} runs failed", "failures")
    paused = tick.due.record.paused_apps
    # A document holds only so many pauses of single apps. Where so many fail, it is the trigger that fails.
    whole = tick.trigger.app_id is not None or len(paused) >= MAX_PAUSED_APPS
    await triggers.pause(tick.trigger, pause, app_id=None if whole else tick.app_id)
    log.warning(
        "trigger_paused_after_failures",
        extra={"trigger": tick.trigger.id, "app_id": tick.app_id, "failures": limit},
    )


@dataclass(slots=True)
class StartResult:
    """What became of some ticks of one schedule. `accepted` are also those that another scheduler has started: whoever
    moves the schedule on counts them all. `failed`: the store refused a run, and the tick is not over."""

    accepted: int = 0
    skips: list[Skip] = field(default_factory=list)
    has_failed: bool = False


class TickStarter:
    def __init__(
        self, runs: RunStore, triggers: TriggerStore, acceptance: Acceptance, clock: Callable[[], datetime]
    ) -> None:
        self._runs = runs
        self._triggers = triggers
        self._acceptance = acceptance
        self._clock = clock

    async def start(self, requested: Sequence[tuple[DueSchedule, datetime, str]]) -> Mapping[str, StartResult]:
        """By trigger: a schedule that is due, a nominal time of it, and an app."""
        started = {due.id: StartResult() for due, _, _ in requested}
        made = self._make_ticks(requested, started)
        there = await self._find_existing(made)
        ticks = [tick for tick in made if tick not in there]
        paused = await pause_failing(self._runs, self._triggers, ticks, self._clock())
        refused = dict.fromkeys(paused, PAUSED)
        refused |= await find_overlaps(self._runs, [tick for tick in ticks if tick not in paused])
        for tick, reason in refused.items():
            started[tick.trigger_id].skips.append(Skip(reason, tick.nominal, tick.app_id))
        for tick in there:
            started[tick.trigger_id].accepted += 1
        await gather_all(self._accept(tick, started[tick.trigger_id]) for tick in ticks if tick not in refused)
        return started

    async def _find_existing(self, ticks: Sequence[Tick]) -> set[Tick]:
        """Of a tick that is repeated, by a second scheduler or after a crash, only what is missing is made: one
        question, which an index answers alone."""
        if not ticks:
            return set()
        keys = {"$in": [tick.request.dedupe_key for tick in ticks]}
        found = self._runs.runs.find({"dedupe_key": keys}, {"_id": 0, "dedupe_key": 1})
        there = {run["dedupe_key"] async for run in found}
        return {tick for tick in ticks if tick.request.dedupe_key in there}

    def _make_ticks(
        self, requested: Sequence[tuple[DueSchedule, datetime, str]], results: Mapping[str, StartResult]
    ) -> list[Tick]:
        fired_at = self._clock()
        ticks = []
        for due, nominal, app_id in requested:
            if _is_paused(due, nominal, app_id):
                results[due.id].skips.append(Skip(PAUSED, nominal, app_id))
                continue
            try:
                ticks.append(make_tick(due, nominal, app_id, fired_at=fired_at))
            except ExpressionError as error:
                results[due.id].skips.append(_unfit_skip(due, nominal, app_id, UNMAPPABLE, error))
        return ticks

    async def _accept(self, tick: Tick, result: StartResult) -> None:
        try:
            await cancel_previous(self._runs, tick)
            await self._acceptance.accept(tick.request)
        except NotStorableError as error:
            result.skips.append(_unfit_skip(tick, tick.nominal, tick.app_id, NOT_STORABLE, error))
        except OperationFailure as error:
            if is_unavailable(error):
                raise
            # The server is there and refuses this one: the others must not wait for it.
            log.error("schedule_failed", extra={"trigger": tick.trigger_id, "app_id": tick.app_id, "code": error.code})
            result.has_failed = True
        else:
            result.accepted += 1


def _is_paused(due: DueSchedule, nominal: datetime, app_id: str) -> bool:
    """Also a time before it was resumed: that passed during the pause, and nobody was there to see it."""
    resumed = due.record.last_resumed_at(app_id)
    return due.record.pause_of(app_id) is not None or (resumed is not None and nominal <= resumed)


def _unfit_skip(origin: DueSchedule | Tick, nominal: datetime, app_id: str, reason: str, error: Exception) -> Skip:
    log.warning(
        "schedule_unmappable",
        extra={"trigger": origin.trigger.id, "app_id": app_id, "reason": reason, "error": str(error)},
    )
    return Skip(reason, nominal, app_id, detail=str(error))
