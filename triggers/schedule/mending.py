"""Mending: a schedule that was made at run time and waits for no time, though it has not ended, is armed again.

Nothing we do leaves one like that; a restored backup or a hand in the database may. All of them are looked through, a
few at a time. Those of packages are put right whenever packages are looked at.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from pymongo import ASCENDING
from pymongo.asynchronous.database import AsyncDatabase

from triggers.register.record import read_record
from triggers.schedule.schedules import arm_schedule
from triggers.schedule.store import read_state, trigger_collection
from workflows.package.trigger_specs.schedule import ScheduleSpec

log = logging.getLogger(__name__)

REPAIR_BATCH_SIZE = 1000
REPAIR_INTERVAL_S = 5.0


class ScheduleRepair:
    def __init__(
        self,
        database: AsyncDatabase[dict[str, Any]],
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        batch_size: int = REPAIR_BATCH_SIZE,
    ) -> None:
        self._triggers = trigger_collection(database)
        self._clock = clock
        self._batch_size = batch_size
        self._checked_until = ""

    async def repair_next_batch(self) -> float:
        """At the next ones, from the start again after the last; returns the seconds until it should go on."""
        asked = {"spec.type": "schedule", "_id": {"$gt": self._checked_until}}
        found = self._triggers.find(asked, {"schedule": 1}).sort("_id", ASCENDING).limit(self._batch_size)
        seen = await found.to_list(None)
        for document in seen:
            if read_state(document) == (None, False):
                await self._repair(document)
        self._checked_until = seen[-1]["_id"] if len(seen) == self._batch_size else ""
        return REPAIR_INTERVAL_S

    async def _repair(self, snapshot: Mapping[str, Any]) -> None:
        """What was seen is the condition, and None is also what is not there."""
        as_seen = {"_id": snapshot["_id"], "schedule": snapshot.get("schedule")}
        document = await self._triggers.find_one(as_seen)
        if document is None:
            return
        try:
            record = read_record(document)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            log.error("schedule_unreadable", extra={"trigger": snapshot["_id"], "error": type(error).__name__})
            return
        if isinstance(record.spec, ScheduleSpec):
            same = {**as_seen, "revision": record.revision}
            mended = await self._triggers.update_one(same, {"$set": {"schedule": arm_schedule(record.spec, self._clock())}})
            if mended.modified_count:
                log.warning("schedule_armed_again", extra={"trigger": record.id})
