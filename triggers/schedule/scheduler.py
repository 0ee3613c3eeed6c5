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
from typing import Any, Protocol

from pymongo.asynchronous.database import AsyncDatabase

from triggers.acceptance import Acceptance
from triggers.register.store import TriggerStore
from triggers.register.trigger import Trigger
from triggers.schedule.apps import in_portions
from triggers.schedule.fan_out import FanOut
from triggers.schedule.firing import Firing, firing_of, is_anothers, report
from triggers.schedule.metrics import ScheduleMetrics
from triggers.schedule.reading import Reading
from triggers.schedule.schedules import declared_schedules, has_apps
from triggers.schedule.starting import Starter
from triggers.schedule.store import Due, ScheduleStore, read_state
from workers.store.run_store import RunStore
from workers.together import together
from workflows.package.models import Package

log = logging.getLogger(__name__)

IDLE_S = 0.5
SYNC_INTERVAL = timedelta(seconds=30)  # re-arms a schedule whose document somebody deleted
LONG_PAUSE = timedelta(seconds=30)  # between two looks: the store was away, or this process was stopped
MOST_IN_A_TICK = 5_000  # before it looks at packages and the clock again
MOST_AT_ONCE = 1_000
SIDE_BY_SIDE = 250  # while the store works on some, others are prepared
MANY_RUNS = 100  # of one schedule's tick: they go on beside the others


class Packages(Protocol):
    def packages(self) -> Mapping[str, Package]: ...


class Ground(Protocol):
    """What a scheduler stands on: a trigger role's ground has it, and more."""

    @property
    def database(self) -> AsyncDatabase[dict[str, Any]]: ...
    @property
    def store(self) -> RunStore: ...
    @property
    def acceptance(self) -> Acceptance: ...
    @property
    def triggers(self) -> TriggerStore: ...
    @property
    def catalog(self) -> Packages: ...


class Scheduler:
    def __init__(
        self,
        ground: Ground,
        *,
        metrics: ScheduleMetrics,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        packages: Callable[[], Mapping[str, Package]] | None = None,
    ) -> None:
        self._get_packages = packages or ground.catalog.packages
        self._metrics = metrics
        self._clock = clock
        self._store = ScheduleStore(ground.database)
        self._starter = Starter(ground.store, ground.triggers, ground.acceptance, clock)
        self._fan_out = FanOut(self._store, self._starter, ground.database, self._move_on)
        self._reading = Reading()
        self._packages: Mapping[str, Package] = {}  # as they were synced
        self._declared: Mapping[str, Trigger] = {}
        self._active: Mapping[str, Trigger] = {}
        self._synced_at: datetime | None = None
        self._looked_at: datetime | None = None
        self._looking_since = clock()  # without a long pause

    async def ensure_indexes(self) -> None:
        await self._store.ensure_indexes()

    async def tick(self) -> float:
        """Fires what is due; returns the seconds until the next look."""
        now = self._clock()
        if self._looked_at is None or now - self._looked_at > LONG_PAUSE:
            self._looking_since = now
        self._looked_at = now
        self._fan_out.check()
        await self._sync(now)
        moved = 0
        dues: dict[str, Due] = {}
        async with aclosing(self._store.upcoming(now + timedelta(seconds=IDLE_S))) as upcoming:
            async for document in upcoming:
                next_at, _ = read_state(document)
                if next_at is not None and next_at > now:
                    await self._fire(dues, now)
                    return max(0.0, (next_at - self._clock()).total_seconds())
                due = self._reading.due(document, self._active)
                if due is not None and self._may_fire(due, now):
                    dues[due.id] = due
                if len(dues) == MOST_AT_ONCE:
                    moved += await self._fire(dues, now)
                    dues = {}
                    if moved >= MOST_IN_A_TICK:
                        return 0
        await self._fire(dues, now)
        return IDLE_S

    async def settled(self) -> None:
        """Once the ticks that go on beside the others are done."""
        await self._fan_out.settled()

    async def stop(self) -> None:
        await self._fan_out.stop()

    async def _sync(self, now: datetime) -> None:
        packages = self._get_packages()
        is_recent = self._synced_at is not None and abs(now - self._synced_at) < SYNC_INTERVAL
        if is_recent and _same(packages, self._packages):
            return
        declared = declared_schedules(packages)
        active = {id_: trigger for id_, trigger in declared.items() if has_apps(trigger)}
        await self._store.sync(active, now)
        for id_ in declared.keys() - active.keys():
            if declared[id_] != self._declared.get(id_):
                log.warning("schedule_inactive", extra={"trigger": id_, "reason": "no apps"})
        # Shown from the start: an alert must see a schedule that never fires.
        self._metrics.next_fires(await self._store.next_times(self._metrics.shown_at_run_time()))
        self._packages, self._declared, self._active = dict(packages), declared, active
        self._synced_at = now

    def _may_fire(self, due: Due, now: datetime) -> bool:
        return not self._fan_out.is_busy_with(due.id) and not self._is_anothers(due, now)

    def _is_anothers(self, due: Due, now: datetime) -> bool:
        return is_anothers(due, now, self._packages, looking_since=self._looking_since)

    async def _fire(self, dues: Mapping[str, Due], now: datetime) -> int:
        """How many were moved on."""
        portions = in_portions(iter(dues.values()), SIDE_BY_SIDE)
        return sum(await together(self._fire_some(some, now) for some in portions))

    async def _fire_some(self, dues: Sequence[Due], now: datetime) -> int:
        current = await self._store.still_due(dues)
        firings = [firing_of(due, now, self._packages) for due in dues if due.id in current]
        at_once = []
        for firing in firings:
            if firing.has_collection or firing.starts > MANY_RUNS:
                self._fan_out.begin(firing)
            else:
                at_once.append(firing)
        return await self._move_on(await self._start(at_once))

    async def _start(self, firings: Sequence[Firing]) -> Sequence[Firing]:
        """The nominal times of each one after another, those of all side by side. Those that are done with."""
        for number in count():
            wanted = [
                (firing.due, firing.fire[number], app_id)
                for firing in firings
                if number < len(firing.fire) and not firing.failed
                for app_id in dict.fromkeys(firing.due.trigger.apps)
            ]
            if not wanted:
                break
            if number > 0:
                # A scheduler that was stopped for a while must not start what another one has skipped since.
                current = await self._store.still_due([firing.due for firing in firings])
                firings = [firing for firing in firings if firing.id in current]
                wanted = [each for each in wanted if each[0].id in current]
            for some in in_portions(wanted, MOST_AT_ONCE):
                started = await self._starter.start(some)
                for firing in firings:
                    if firing.id in started:
                        firing.add(started[firing.id])
        return firings

    async def _move_on(self, firings: Sequence[Firing]) -> int:
        """What failed stays due, and is tried again."""
        over = {firing.id: firing for firing in firings if not firing.failed}
        if not over:
            return 0
        now = self._clock()
        moved = await self._store.advance([firing.move() for firing in over.values()], now)
        for id_ in moved:
            self._metrics.fired(over[id_], now)
            report(over[id_])
        return len(moved)


def _same(packages: Mapping[str, Package], seen: Mapping[str, Package]) -> bool:
    """The catalog keeps its objects as long as nothing has changed on disk."""
    return packages.keys() == seen.keys() and all(packages[name] is seen[name] for name in seen)
