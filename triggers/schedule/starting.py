"""Starting: ticks become runs, or skips with a reason. Whatever is asked of the store is asked for many at once."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pymongo.errors import OperationFailure

from accounting.store_errors import store_is_away
from triggers.acceptance import Acceptance
from triggers.payload import PayloadError
from triggers.register.store import TriggerStore
from triggers.schedule.failures import paused_now, resumed_at
from triggers.schedule.overlap import make_way, refusals
from triggers.schedule.plan import PAUSED
from triggers.schedule.skips import NOT_STORABLE, UNMAPPABLE, Skip
from triggers.schedule.store import Due
from triggers.schedule.ticks import Tick, make_tick
from workers.store.run_store import RunStore
from workers.store.storable import NotStorableError
from workers.store.trigger_runs import TriggerRuns
from workers.together import together

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Started:
    """What became of some ticks of one schedule. `accepted` are also those that another scheduler has started: whoever
    moves the schedule on counts them all. `failed`: the store refused a run, and the tick is not over."""

    accepted: int = 0
    skips: list[Skip] = field(default_factory=list)
    failed: bool = False


class Starter:
    def __init__(
        self, runs: RunStore, triggers: TriggerStore, acceptance: Acceptance, clock: Callable[[], datetime]
    ) -> None:
        self._runs = runs
        self._triggers = triggers
        self._acceptance = acceptance
        self._clock = clock

    async def start(self, wanted: Sequence[tuple[Due, datetime, str]]) -> Mapping[str, Started]:
        """By trigger: a schedule that is due, a nominal time of it, and an app."""
        started = {due.id: Started() for due, _, _ in wanted}
        made = self._made(wanted, started)
        there = await self._there_already(made)
        ticks = [tick for tick in made if tick not in there]
        paused = await paused_now(self._runs, self._triggers, ticks, self._clock())
        refused = dict.fromkeys(paused, PAUSED)
        refused |= await refusals(self._runs, [tick for tick in ticks if tick not in paused])
        for tick, reason in refused.items():
            started[tick.trigger_id].skips.append(Skip(reason, tick.nominal, tick.app_id))
        for tick in there:
            started[tick.trigger_id].accepted += 1
        await together(self._accept(tick, started[tick.trigger_id]) for tick in ticks if tick not in refused)
        return started

    async def _there_already(self, ticks: Sequence[Tick]) -> set[Tick]:
        """Of a tick that is repeated, by a second scheduler or after a crash, only what is missing is made: one
        question, which an index answers alone."""
        if not ticks:
            return set()
        there = await TriggerRuns(self._runs).known_keys(tick.request.dedupe_key for tick in ticks)
        return {tick for tick in ticks if tick.request.dedupe_key in there}

    def _made(self, wanted: Sequence[tuple[Due, datetime, str]], started: Mapping[str, Started]) -> list[Tick]:
        fired_at = self._clock()
        ticks = []
        for due, nominal, app_id in wanted:
            if _is_paused(due, nominal, app_id):
                started[due.id].skips.append(Skip(PAUSED, nominal, app_id))
                continue
            try:
                ticks.append(make_tick(due, nominal, app_id, fired_at=fired_at))
            except PayloadError as error:
                started[due.id].skips.append(_unfit(due, nominal, app_id, UNMAPPABLE, error))
        return ticks

    async def _accept(self, tick: Tick, started: Started) -> None:
        try:
            await make_way(self._runs, tick)
            await self._acceptance.accept(tick.request)
        except NotStorableError as error:
            started.skips.append(_unfit(tick, tick.nominal, tick.app_id, NOT_STORABLE, error))
        except OperationFailure as error:
            if store_is_away(error):
                raise
            # The server is there and refuses this one: the others must not wait for it.
            log.error("schedule_failed", extra={"trigger": tick.trigger_id, "app_id": tick.app_id, "code": error.code})
            started.failed = True
        else:
            started.accepted += 1


def _is_paused(due: Due, nominal: datetime, app_id: str) -> bool:
    """Also a time before it was resumed: that passed during the pause, and nobody was there to see it."""
    resumed = resumed_at(due.record.document, app_id)
    return due.record.pause_of(app_id) is not None or (resumed is not None and nominal <= resumed)


def _unfit(of: Due | Tick, nominal: datetime, app_id: str, reason: str, error: Exception) -> Skip:
    log.warning(
        "schedule_unmappable", extra={"trigger": of.trigger.id, "app_id": app_id, "reason": reason, "error": str(error)}
    )
    return Skip(reason, nominal, app_id, detail=str(error))
