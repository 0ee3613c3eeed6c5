"""What becomes of a schedule between the moment it is read and the moment it starts runs."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.integration.triggers.schedule_bench import MINUTE, NOON, FakeClock, ScheduleBench, nominal_times
from triggers.schedule.schedule_store import DueSchedule, ScheduleStore
from triggers.schedule.tick_starter import StartResult, TickStarter
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

MADE = "Digest/made@acme"


async def test_one_that_is_removed_after_it_was_read_starts_nothing(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await schedules.create_schedule(cron="* * * * *")
    read = ScheduleStore.iter_upcoming

    async def upcoming(self: ScheduleStore, until: datetime) -> AsyncGenerator[Mapping[str, Any], None]:
        async for document in read(self, until):
            yield document
        await schedules.triggers.remove(MADE)

    monkeypatch.setattr(ScheduleStore, "iter_upcoming", upcoming)

    await schedules.ticks_at(clock, NOON + timedelta(seconds=1))

    assert await nominal_times(store) == []


async def test_one_that_is_removed_between_two_late_times_starts_no_more(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await schedules.create_schedule(cron="* * * * *", misfire={"policy": "all", "grace": "1h"}, overlap="allow")
    start = TickStarter.start

    async def started(
        self: TickStarter, wanted: Sequence[tuple[DueSchedule, datetime, str]]
    ) -> Mapping[str, StartResult]:
        done = await start(self, wanted)
        await schedules.triggers.remove(MADE)
        return done

    monkeypatch.setattr(TickStarter, "start", started)

    await schedules.ticks_at(clock, NOON + 3 * MINUTE)

    assert await nominal_times(store) == [NOON]
