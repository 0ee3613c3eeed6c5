"""The store clock, on a machine with a wrong clock."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from triggers.schedule.store_clock import MAX_CLOCK_SKEW, StoreClock
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

NEARLY = timedelta(seconds=2)


class MachineClock:
    def __init__(self, off: timedelta = timedelta(0)) -> None:
        self.off = off

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.off


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_machine_that_is_an_hour_off_goes_by_the_databases_clock(
    store: RunStore, hours: int, caplog: pytest.LogCaptureFixture
) -> None:
    machine = MachineClock(timedelta(hours=hours))
    clock = StoreClock(store.database, local=machine)

    for _ in range(3):
        await clock.sync()

    assert abs(clock() - datetime.now(UTC)) < NEARLY
    assert [record.message for record in caplog.records] == ["clock_is_off"]
    machine.off = timedelta(0)
    caplog.set_level("INFO")
    await clock.sync()
    assert caplog.records[-1].message == "clock_is_right_again"


async def test_a_jump_between_two_checks_is_missed_and_a_small_offset_ignored(store: RunStore) -> None:
    machine = MachineClock()
    clock = StoreClock(store.database, local=machine)
    await clock.sync()

    machine.off = timedelta(hours=1)
    assert abs(clock() - datetime.now(UTC)) < NEARLY

    machine.off = MAX_CLOCK_SKEW - NEARLY
    await clock.sync()
    assert clock() - datetime.now(UTC) > MAX_CLOCK_SKEW - 2 * NEARLY


async def test_a_slow_answer_proves_nothing_about_the_clock(store: RunStore) -> None:
    passed = iter([0.0, 0.0, 60.0, 60.0])
    started = datetime.now(UTC) - timedelta(hours=1)
    clock = StoreClock(store.database, local=lambda: started, steady=lambda: next(passed))

    await clock.sync()

    assert clock() == started + timedelta(seconds=60)


async def test_time_goes_on_while_the_database_is_away(store: RunStore) -> None:
    clock = StoreClock(store.database)
    before, began = clock(), time.monotonic()

    while time.monotonic() == began:
        pass

    assert clock() > before
