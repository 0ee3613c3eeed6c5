"""The scheduler: turns due nominal times into runs, each exactly once.

1. `_sync` stores the schedules that the packages declare. Those created at run time are read when due.
2. `plan_fire`: pauses and the misfire policy decide which nominal times fire.
3. `_start` creates one run per app. The nominal time is part of the dedupe key, so a second scheduler, or this one
   after a crash, finds the run.
4. Only then `_advance`. A crash in between repeats the tick, which changes nothing; the other order would lose it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from itertools import count

from accounting.infra.aio import gather_all
from triggers.register.trigger import Trigger
from triggers.role_context import RoleContext
from triggers.schedule.due_schedules import DueReader, ScheduleFire, is_for_another_scheduler, log_fire, plan_fire
from triggers.schedule.fan_out import FanOut
from triggers.schedule.schedule_apps import iter_batches
from triggers.schedule.schedule_metrics import ScheduleMetrics
from triggers.schedule.schedule_store import DueSchedule, ScheduleStore, read_state
from triggers.schedule.schedule_triggers import declared_schedules, has_apps
from triggers.schedule.tick_starter import TickStarter
from workflows.package.normal_form.package_model import Package

log = logging.getLogger(__name__)

IDLE_INTERVAL_S = 0.5
SYNC_INTERVAL = timedelta(seconds=30)  # also re-arms a schedule whose document was deleted
LONG_PAUSE = timedelta(seconds=30)  # between two ticks: an outage of the store, or this process was stopped
MAX_PER_TICK = 5_000  # then packages and clock are read again
MAX_BATCH = 1_000
CONCURRENT_BATCH_SIZE = 250  # the next batch is prepared while the store works on one
MAX_INLINE_RUNS = 100  # of one schedule; a tick with more runs goes to the fan-out


class Scheduler:
    def __init__(
        self,
        context: RoleContext,
        *,
        metrics: ScheduleMetrics,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        packages: Callable[[], Mapping[str, Package]] | None = None,
    ) -> None:
        self._get_packages = packages or context.catalog.packages
        self._metrics = metrics
        self._clock = clock
        self._store = ScheduleStore(context.database)
        self._starter = TickStarter(context.store, context.triggers, context.acceptance, clock)
        self._fan_out = FanOut(self._store, self._starter, context.database, self._advance)
        self._due_reader = DueReader()
        self._packages: Mapping[str, Package] = {}  # as of the last sync
        self._declared_triggers: Mapping[str, Trigger] = {}
        self._active_triggers: Mapping[str, Trigger] = {}
        self._synced_at: datetime | None = None
        self._last_tick_at: datetime | None = None
        self._ticking_since = clock()  # without a long pause

    async def ensure_indexes(self) -> None:
        await self._store.ensure_indexes()

    async def tick(self) -> float:
        """Fires what is due, and returns the seconds until the next tick."""
        now = self._clock()
        if self._last_tick_at is None or now - self._last_tick_at > LONG_PAUSE:
            self._ticking_since = now
        self._last_tick_at = now
        self._fan_out.collect_finished()
        await self._sync(now)
        advanced = 0
        dues: dict[str, DueSchedule] = {}
        async with aclosing(self._store.iter_upcoming(now + timedelta(seconds=IDLE_INTERVAL_S))) as upcoming:
            async for document in upcoming:
                next_at, _ = read_state(document)
                if next_at is not None and next_at > now:
                    await self._fire(dues, now)
                    return max(0.0, (next_at - self._clock()).total_seconds())
                due = self._due_reader.read_due(document, self._active_triggers)
                if due is not None and self._can_fire(due, now):
                    dues[due.id] = due
                if len(dues) == MAX_BATCH:
                    advanced += await self._fire(dues, now)
                    dues = {}
                    if advanced >= MAX_PER_TICK:
                        return 0
        await self._fire(dues, now)
        return IDLE_INTERVAL_S

    async def wait_until_idle(self) -> None:
        """Waits until the fan-out is done."""
        await self._fan_out.wait_until_idle()

    async def stop(self) -> None:
        await self._fan_out.stop()

    async def _sync(self, now: datetime) -> None:
        packages = self._get_packages()
        is_recent = self._synced_at is not None and abs(now - self._synced_at) < SYNC_INTERVAL
        if is_recent and _is_unchanged(packages, self._packages):
            return
        declared = declared_schedules(packages)
        active = {id_: trigger for id_, trigger in declared.items() if has_apps(trigger)}
        await self._store.sync(active, now)
        for id_ in declared.keys() - active.keys():
            if declared[id_] != self._declared_triggers.get(id_):
                log.warning("schedule_inactive", extra={"trigger": id_, "reason": "no apps"})
        # Set from the start, so that alerts see a schedule that never fires.
        self._metrics.set_next_fires(await self._store.find_next_times(self._metrics.runtime_trigger_ids()))
        self._packages, self._declared_triggers, self._active_triggers = dict(packages), declared, active
        self._synced_at = now

    def _can_fire(self, due: DueSchedule, now: datetime) -> bool:
        is_elsewhere = is_for_another_scheduler(due, now, self._packages, ticking_since=self._ticking_since)
        return not is_elsewhere and not self._fan_out.is_running(due.id)

    async def _fire(self, dues: Mapping[str, DueSchedule], now: datetime) -> int:
        """Returns the number of schedules that advanced."""
        batches = iter_batches(iter(dues.values()), CONCURRENT_BATCH_SIZE)
        return sum(await gather_all(self._fire_batch(batch, now) for batch in batches))

    async def _fire_batch(self, dues: Sequence[DueSchedule], now: datetime) -> int:
        current = await self._store.find_still_due(dues)
        fires = [plan_fire(due, now, self._packages) for due in dues if due.id in current]
        inline = []
        for fire in fires:
            if fire.has_app_collection or fire.run_count > MAX_INLINE_RUNS:
                self._fan_out.start(fire)
            else:
                inline.append(fire)
        return await self._advance(await self._start(inline))

    async def _start(self, fires: Sequence[ScheduleFire]) -> Sequence[ScheduleFire]:
        """Starts each schedule's times in order, and all schedules concurrently.

        Returns the schedules that are still current.
        """
        for number in count():
            requested = [
                (fire.due, fire.fire_times[number], app_id)
                for fire in fires
                if number < len(fire.fire_times) and not fire.has_failed
                for app_id in dict.fromkeys(fire.due.trigger.apps)
            ]
            if not requested:
                break
            if number > 0:
                # A scheduler that was stopped for a while must not start what another one has skipped since.
                current = await self._store.find_still_due([fire.due for fire in fires])
                fires = [fire for fire in fires if fire.id in current]
                requested = [request for request in requested if request[0].id in current]
            for batch in iter_batches(requested, MAX_BATCH):
                results = await self._starter.start(batch)
                for fire in fires:
                    if fire.id in results:
                        fire.add(results[fire.id])
        return fires

    async def _advance(self, fires: Sequence[ScheduleFire]) -> int:
        """Advances what has fired. A failed schedule stays due, and fires again."""
        done = {fire.id: fire for fire in fires if not fire.has_failed}
        if not done:
            return 0
        now = self._clock()
        advanced = await self._store.advance([fire.as_move() for fire in done.values()], now)
        for id_ in advanced:
            self._metrics.observe_fire(done[id_], now)
            log_fire(done[id_])
        return len(advanced)


def _is_unchanged(packages: Mapping[str, Package], previous: Mapping[str, Package]) -> bool:
    """Compares by identity: the catalog keeps its objects until a file changes."""
    return packages.keys() == previous.keys() and all(packages[name] is previous[name] for name in previous)
