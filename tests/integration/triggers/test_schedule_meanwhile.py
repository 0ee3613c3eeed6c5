"""What becomes of a schedule between the moment it is read and the moment it starts runs."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.integration.triggers.schedule_bench import MINUTE, NOON, Bench, Clock, nominal
from triggers.schedule.starting import Started, Starter
from triggers.schedule.store import Due, ScheduleStore
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

MADE = "Digest/made@acme"


async def test_one_that_is_removed_after_it_was_read_starts_nothing(
    schedules: Bench, store: RunStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await schedules.make(cron="* * * * *")
    read = ScheduleStore.upcoming

    async def upcoming(self: ScheduleStore, until: datetime) -> AsyncGenerator[Mapping[str, Any], None]:
        async for document in read(self, until):
            yield document
        await schedules.triggers.remove(MADE)

    monkeypatch.setattr(ScheduleStore, "upcoming", upcoming)

    await schedules.ticks_at(clock, NOON + timedelta(seconds=1))

    assert await nominal(store) == []


async def test_one_that_is_removed_between_two_late_times_starts_no_more(
    schedules: Bench, store: RunStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await schedules.make(cron="* * * * *", misfire={"policy": "all", "grace": "1h"}, overlap="allow")
    start = Starter.start

    async def started(self: Starter, wanted: Sequence[tuple[Due, datetime, str]]) -> Mapping[str, Started]:
        done = await start(self, wanted)
        await schedules.triggers.remove(MADE)
        return done

    monkeypatch.setattr(Starter, "start", started)

    await schedules.ticks_at(clock, NOON + 3 * MINUTE)

    assert await nominal(store) == [NOON]
