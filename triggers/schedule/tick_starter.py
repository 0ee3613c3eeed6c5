"""The tick starter: turns ticks into runs, or into skips with a reason."""

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
from triggers.schedule.tick_requests import Tick, make_tick
from workers.store.run_store import RunStore
from workers.store.storable import NotStorableError
from workers.store.trigger_runs import TriggerRuns

log = logging.getLogger(__name__)

PAUSED_BY = "the scheduler"


async def pause_failing(runs: RunStore, triggers: TriggerStore, ticks: Sequence[Tick], now: datetime) -> set[Tick]:
    """Pauses the triggers of ticks that failed too often, and returns these ticks."""
    limited = [tick for tick in ticks if spec_of(tick.trigger).pause_after_failures is not None]
    failed = await gather_all(_has_failed_too_often(runs, tick) for tick in limited)
    failing = {tick for tick, too_often in zip(limited, failed, strict=True) if too_often}
    await gather_all(_pause_trigger(triggers, tick, now) for tick in failing)
    return failing


async def _has_failed_too_often(runs: RunStore, tick: Tick) -> bool:
    limit = spec_of(tick.trigger).pause_after_failures or 0
    failures = await runs.count_recent_failures(
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
    # A document holds a bounded number of pauses by app. With so many failing apps the whole trigger is paused.
    is_whole = tick.trigger.app_id is not None or len(paused) >= MAX_PAUSED_APPS
    await triggers.pause(tick.trigger, pause, app_id=None if is_whole else tick.app_id)
    log.warning(
        "trigger_paused_after_failures",
        extra={"trigger": tick.trigger.id, "app_id": tick.app_id, "failures": limit},
    )


@dataclass(slots=True)
class StartResult:
    """The result of a batch of ticks of one schedule.

    `accepted` includes runs that another scheduler started: the one that advances the schedule counts all of them.
    `has_failed`: the store refused a run, and the tick stays due.
    """

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
        """Starts the requested schedules, times and apps.

        Returns the results by trigger id.
        """
        results = {due.id: StartResult() for due, _, _ in requested}
        all_ticks = self._make_ticks(requested, results)
        existing = await self._find_existing(all_ticks)
        ticks = [tick for tick in all_ticks if tick not in existing]
        paused = await pause_failing(self._runs, self._triggers, ticks, self._clock())
        refused = dict.fromkeys(paused, PAUSED)
        refused |= await find_overlaps(self._runs, [tick for tick in ticks if tick not in paused])
        for tick, reason in refused.items():
            results[tick.trigger_id].skips.append(Skip(reason, tick.nominal, tick.app_id))
        for tick in existing:
            results[tick.trigger_id].accepted += 1
        await gather_all(self._accept(tick, results[tick.trigger_id]) for tick in ticks if tick not in refused)
        return results

    async def _find_existing(self, ticks: Sequence[Tick]) -> set[Tick]:
        """Returns the ticks whose runs exist, from another scheduler or before a crash.

        One query finds them, which an index alone answers.
        """
        if not ticks:
            return set()
        existing_keys = await TriggerRuns(self._runs).known_keys(tick.request.dedupe_key for tick in ticks)
        return {tick for tick in ticks if tick.request.dedupe_key in existing_keys}

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
            # The server refuses this run only: the other ticks must not wait for it.
            log.error("schedule_failed", extra={"trigger": tick.trigger_id, "app_id": tick.app_id, "code": error.code})
            result.has_failed = True
        else:
            result.accepted += 1


def _is_paused(due: DueSchedule, nominal: datetime, app_id: str) -> bool:
    """Returns True also for a time before the resumption: it passed during the pause."""
    resumed = due.record.last_resumed_at(app_id)
    return due.record.pause_of(app_id) is not None or (resumed is not None and nominal <= resumed)


def _unfit_skip(origin: DueSchedule | Tick, nominal: datetime, app_id: str, reason: str, error: Exception) -> Skip:
    log.warning(
        "schedule_unmappable",
        extra={"trigger": origin.trigger.id, "app_id": app_id, "reason": reason, "error": str(error)},
    )
    return Skip(reason, nominal, app_id, detail=str(error))
