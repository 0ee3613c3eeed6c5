"""Fan-out: starts ticks with very many runs in batches, in the background.

Their schedules advance at the end. A scheduler that dies in the middle leaves the tick due; the next one finds the
runs that exist.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import PyMongoError

from triggers.schedule.due_schedules import ScheduleFire
from triggers.schedule.schedule_apps import AppsUnreadableError, iter_app_batches
from triggers.schedule.schedule_store import DueSchedule, ScheduleStore
from triggers.schedule.tick_plan import APPS_UNREADABLE, NO_APPS, UNUSABLE_APP, Skip
from triggers.schedule.tick_starter import TickStarter

log = logging.getLogger(__name__)

MAX_CONCURRENT = 8


class FanOut:
    def __init__(
        self,
        store: ScheduleStore,
        starter: TickStarter,
        database: AsyncDatabase[dict[str, Any]],
        on_done: Callable[[Sequence[ScheduleFire]], Awaitable[int]],
    ) -> None:
        """`on_done` advances the schedules that have fired."""
        self._store = store
        self._starter = starter
        self._database = database
        self._on_done = on_done
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopping = False

    def is_running(self, trigger_id: str) -> bool:
        return trigger_id in self._tasks

    def start(self, fire: ScheduleFire) -> None:
        """Starts a tick, unless too many are in progress: then it stays due."""
        if len(self._tasks) < MAX_CONCURRENT and fire.id not in self._tasks and not self._stopping:
            self._tasks[fire.id] = asyncio.create_task(self._fire(fire), name=f"fan-out {fire.id}")

    def collect_finished(self) -> None:
        """Drops finished tasks, and raises their unexpected errors."""
        for id_, task in list(self._tasks.items()):
            if task.done():
                del self._tasks[id_]
                task.result()

    async def wait_until_idle(self) -> None:
        """Waits until no tick is in progress."""
        if self._tasks:
            await asyncio.wait(self._tasks.values())
        self.collect_finished()

    async def stop(self) -> None:
        """Stops after the current batches. The rest stays due for the next scheduler."""
        self._stopping = True
        await self.wait_until_idle()

    async def _fire(self, fire: ScheduleFire) -> None:
        try:
            for nominal in fire.fire_times:
                if not await self._fire_one(fire, nominal):
                    return
            await self._on_done([fire])
        except PyMongoError as error:
            log.warning("fan_out_interrupted", extra={"trigger": fire.id, "error": type(error).__name__})

    async def _fire_one(self, fire: ScheduleFire, nominal: datetime) -> bool:
        """Returns False when the schedule has changed, or the process stops."""
        has_no_apps = True
        try:
            async for batch in iter_app_batches(fire.due.trigger, self._database):
                due = await self._read_current(fire.due)
                if due is None:
                    return False
                if batch.unusable:
                    fire.skips.add([Skip(UNUSABLE_APP, nominal, count=batch.unusable)])
                results = await self._starter.start([(due, nominal, app_id) for app_id in batch.apps])
                for result in results.values():
                    fire.add(result)
                has_no_apps = has_no_apps and not batch.apps
        except AppsUnreadableError as error:
            fire.skips.add([Skip(APPS_UNREADABLE, nominal, detail=str(error))])
            return True
        if has_no_apps:
            fire.skips.add([Skip(NO_APPS, nominal)])
        return True

    async def _read_current(self, due: DueSchedule) -> DueSchedule | None:
        """Reads the schedule again, with its current pauses."""
        record = None if self._stopping else await self._store.find_if_due(due)
        return None if record is None else replace(due, record=record)
