"""Fan-out: ticks with very many runs go on beside the others, portion by portion, so that nobody waits for them.

Their place is moved on at the end. A scheduler that dies in the middle leaves the tick due, and whoever takes it up
finds the runs that are there.
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
        """`done` moves on what has fired."""
        self._store = store
        self._starter = starter
        self._database = database
        self._on_done = on_done
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopping = False

    def is_running(self, trigger_id: str) -> bool:
        return trigger_id in self._tasks

    def start(self, fire: ScheduleFire) -> None:
        """Or not, while too much is under way: it stays due."""
        if len(self._tasks) < MAX_CONCURRENT and fire.id not in self._tasks and not self._stopping:
            self._tasks[fire.id] = asyncio.create_task(self._fire(fire), name=f"fan-out {fire.id}")

    def collect_finished(self) -> None:
        """Forgets what is done; raises what nobody expected."""
        for id_, task in list(self._tasks.items()):
            if task.done():
                del self._tasks[id_]
                task.result()

    async def wait_until_idle(self) -> None:
        """Once all that is under way has come to its end."""
        if self._tasks:
            await asyncio.wait(self._tasks.values())
        self.collect_finished()

    async def stop(self) -> None:
        """After the portion that is under way. What is missing is due still, for the next scheduler."""
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
        """False when it is not ours to go on with: it was moved on or edited meanwhile, or the process stops."""
        nobody = True
        try:
            async for portion in iter_app_batches(fire.due.trigger, self._database):
                due = await self._read_current(fire.due)
                if due is None:
                    return False
                if portion.unusable:
                    fire.skips.add([Skip(UNUSABLE_APP, nominal, count=portion.unusable)])
                started = await self._starter.start([(due, nominal, app_id) for app_id in portion.apps])
                for each in started.values():
                    fire.add(each)
                nobody = nobody and not portion.apps
        except AppsUnreadableError as error:
            fire.skips.add([Skip(APPS_UNREADABLE, nominal, detail=str(error))])
            return True
        if nobody:
            fire.skips.add([Skip(NO_APPS, nominal)])
        return True

    async def _read_current(self, due: DueSchedule) -> DueSchedule | None:
        """With the pauses of now."""
        record = None if self._stopping else await self._store.find_if_due(due)
        return None if record is None else replace(due, record=record)
