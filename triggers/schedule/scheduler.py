"""The scheduler: turns due nominal times into runs, each once however many schedulers there are.

1. `_sync`: the store knows every schedule that the packages declare. Those made at run time are found when due.
2. `firing_of`: pauses and the misfire policy say which nominal times fire.
3. `_start`: one run per app; the nominal time is part of the dedupe key, so a second scheduler, or this one
   after a crash, finds the run already there.
4. Only then `_move_on`. A crash in between repeats the tick, which changes nothing; the other order would lose it.
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
SYNC_INTERVAL = timedelta(seconds=30)  # re-arms a schedule whose document somebody deleted
LONG_PAUSE = timedelta(seconds=30)  # between two looks: the store was away, or this process was stopped
MAX_PER_TICK = 5_000  # before it looks at packages and the clock again
MAX_BATCH = 1_000
CONCURRENT_BATCH_SIZE = 250  # while the store works on some, others are prepared
MAX_INLINE_RUNS = 100  # of one schedule's tick: they go on beside the others


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
        self._packages: Mapping[str, Package] = {}  # as they were synced
        self._declared_triggers: Mapping[str, Trigger] = {}
        self._active_triggers: Mapping[str, Trigger] = {}
        self._synced_at: datetime | None = None
        self._last_tick_at: datetime | None = None
        self._ticking_since = clock()  # without a long pause

    async def ensure_indexes(self) -> None:
        await self._store.ensure_indexes()

    async def tick(self) -> float:
        """Fires what is due; returns the seconds until the next look."""
        now = self._clock()
        if self._last_tick_at is None or now - self._last_tick_at > LONG_PAUSE:
            self._ticking_since = now
        self._last_tick_at = now
        self._fan_out.collect_finished()
        await self._sync(now)
        moved = 0
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
                    moved += await self._fire(dues, now)
                    dues = {}
                    if moved >= MAX_PER_TICK:
                        return 0
        await self._fire(dues, now)
        return IDLE_INTERVAL_S

    async def wait_until_idle(self) -> None:
        """Once the ticks that go on beside the others are done."""
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
        # Shown from the start: an alert must see a schedule that never fires.
        self._metrics.set_next_fires(await self._store.find_next_times(self._metrics.runtime_trigger_ids()))
        self._packages, self._declared_triggers, self._active_triggers = dict(packages), declared, active
        self._synced_at = now

    def _can_fire(self, due: DueSchedule, now: datetime) -> bool:
        return not self._fan_out.is_running(due.id) and not self._is_for_another_scheduler(due, now)

    def _is_for_another_scheduler(self, due: DueSchedule, now: datetime) -> bool:
        return is_for_another_scheduler(due, now, self._packages, ticking_since=self._ticking_since)

    async def _fire(self, dues: Mapping[str, DueSchedule], now: datetime) -> int:
        """How many were moved on."""
        portions = iter_batches(iter(dues.values()), CONCURRENT_BATCH_SIZE)
        return sum(await gather_all(self._fire_batch(some, now) for some in portions))

    async def _fire_batch(self, dues: Sequence[DueSchedule], now: datetime) -> int:
        current = await self._store.find_still_due(dues)
        firings = [plan_fire(due, now, self._packages) for due in dues if due.id in current]
        at_once = []
        for firing in firings:
            if firing.has_app_collection or firing.run_count > MAX_INLINE_RUNS:
                self._fan_out.start(firing)
            else:
                at_once.append(firing)
        return await self._advance(await self._start(at_once))

    async def _start(self, fires: Sequence[ScheduleFire]) -> Sequence[ScheduleFire]:
        """The nominal times of each one after another, those of all side by side. Those that are done with."""
        for number in count():
            wanted = [
                (firing.due, firing.fire_times[number], app_id)
                for firing in fires
                if number < len(firing.fire_times) and not firing.has_failed
                for app_id in dict.fromkeys(firing.due.trigger.apps)
            ]
            if not wanted:
                break
            if number > 0:
                # A scheduler that was stopped for a while must not start what another one has skipped since.
                current = await self._store.find_still_due([firing.due for firing in fires])
                fires = [firing for firing in fires if firing.id in current]
                wanted = [each for each in wanted if each[0].id in current]
            for some in iter_batches(wanted, MAX_BATCH):
                started = await self._starter.start(some)
                for firing in fires:
                    if firing.id in started:
                        firing.add(started[firing.id])
        return fires

    async def _advance(self, fires: Sequence[ScheduleFire]) -> int:
        """What failed stays due, and is tried again."""
        over = {firing.id: firing for firing in fires if not firing.has_failed}
        if not over:
            return 0
        now = self._clock()
        moved = await self._store.advance([firing.as_move() for firing in over.values()], now)
        for id_ in moved:
            self._metrics.observe_fire(over[id_], now)
            log_fire(over[id_])
        return len(moved)


def _is_unchanged(packages: Mapping[str, Package], previous: Mapping[str, Package]) -> bool:
    """The catalog keeps its objects as long as nothing has changed on disk."""
    return packages.keys() == previous.keys() and all(packages[name] is previous[name] for name in previous)
