"""Edits of packages while the clock goes on: a schedule is its name, and a run its nominal time."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from accounting.infra.aio import gather_all
from tests.integration.triggers.schedule_bench import (
    MINUTE,
    NOON,
    SECOND,
    START,
    FakeClock,
    ScheduleBench,
    nominal_times,
)
from tests.trigger_packages import package_with_triggers
from triggers.acceptance import Acceptance
from triggers.schedule.schedule_store import ROLLOUT
from triggers.schedule.scheduler import SYNC_INTERVAL
from workers.store.run_store import RunStore
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec

pytestmark = pytest.mark.integration


def minutely(name: str, **spec: object) -> ScheduleSpec:
    return ScheduleSpec.model_validate(
        {"name": name, "cron": "* * * * *", "apps": ("acme",), "overlap": "allow", **spec}
    )


async def test_a_redeployment_during_a_tick_neither_doubles_nor_loses_one(
    store: RunStore, acceptance: Acceptance, clock: FakeClock, schedules: ScheduleBench
) -> None:
    other = ScheduleBench(store, acceptance, clock)
    for bench in (schedules, other):
        bench.packages = package_with_triggers(minutely("nightly"))
    await schedules.scheduler.tick()

    for minute in range(5):
        clock.now = NOON + minute * MINUTE
        other.packages = package_with_triggers(minutely("nightly", input={"version": minute}))
        await gather_all([schedules.scheduler.tick(), other.scheduler.tick()])

    assert await nominal_times(store) == [NOON + minute * MINUTE for minute in range(5)]


async def test_a_rename_goes_on_under_the_new_name_from_the_next_time_on(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    schedules.packages = package_with_triggers(minutely("old"))
    await schedules.scheduler.tick()
    await schedules.ticks_at(clock, NOON)

    schedules.packages = package_with_triggers(minutely("new"))
    await schedules.ticks_at(clock, NOON + SECOND, NOON + MINUTE, NOON + 2 * MINUTE)

    runs = await store.runs.find({}).sort("trigger.nominal_at", 1).to_list(None)
    assert [run["trigger"]["name"] for run in runs] == ["old", "new", "new"]


async def test_the_same_clock_under_two_names_is_two_schedules(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    schedules.packages = package_with_triggers(minutely("one"), minutely("two"))
    await schedules.scheduler.tick()

    await schedules.ticks_at(clock, NOON)

    assert sorted(run["trigger"]["name"] for run in await store.list()) == ["one", "two"]


async def test_an_edit_there_and_back_fires_nothing_twice(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    schedules.packages = package_with_triggers(minutely("nightly"))
    await schedules.scheduler.tick()
    await schedules.ticks_at(clock, NOON)

    schedules.packages = package_with_triggers(minutely("nightly", cron="30 18 * * *"))
    await schedules.ticks_at(clock, NOON + SECOND)
    schedules.packages = package_with_triggers(minutely("nightly"))
    await schedules.ticks_at(clock, NOON + 2 * SECOND, NOON + MINUTE)

    assert await nominal_times(store) == [NOON, NOON + MINUTE]


async def test_documents_that_are_deleted_or_damaged_at_random_are_armed_again(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    chance = random.Random(6)
    names = [f"s{number}" for number in range(12)]
    schedules.packages = package_with_triggers(*(minutely(name) for name in names))
    await schedules.scheduler.tick()
    triggers = schedules.triggers.triggers
    for number in range(30):
        id_ = f"Digest/{chance.choice(names)}"
        damages: list[dict[str, object]] = [
            {"$unset": {"schedule": ""}},
            {"$unset": {"schedule.next_at": ""}},
            {"$set": {"schedule.next_at": "never"}},
            {"$set": {"schedule": []}},
            {"$unset": {"schedule.spec_key": "", "schedule.declared": ""}},
        ]
        if number % 3 == 0:
            await triggers.delete_one({"_id": id_})
        else:
            await triggers.update_one({"_id": id_}, chance.choice(damages))

    clock.now = START + SYNC_INTERVAL
    await schedules.scheduler.tick()
    await schedules.ticks_at(clock, NOON + MINUTE)

    fired = await store.runs.distinct("trigger.name", {"trigger.nominal_at": NOON + MINUTE})
    assert sorted(fired) == sorted(names)


async def test_a_schedule_keeps_its_position_while_another_version_hides_it(
    store: RunStore, acceptance: Acceptance, clock: FakeClock, schedules: ScheduleBench
) -> None:
    """A rollout: the old schedulers do not know the new trigger, the new ones not the old."""
    other = ScheduleBench(store, acceptance, clock)
    schedules.packages = package_with_triggers(minutely("old"), minutely("both"))
    other.packages = package_with_triggers(minutely("new"), minutely("both"))
    await schedules.scheduler.tick()
    await other.scheduler.tick()
    for second in range(31, 151):
        clock.now = START + timedelta(seconds=second)
        for bench in (schedules, other):
            bench.packages = dict(bench.packages)
            await bench.scheduler.tick()

    both = await store.runs.distinct("trigger.nominal_at", {"trigger.name": "both"})
    assert both == [datetime(2026, 6, 1, 12, minute, tzinfo=UTC) for minute in range(3)]
    assert await store.runs.count_documents({"trigger.name": "both"}) == 3


async def test_a_rollout_that_changes_the_clock_loses_no_time_of_either(
    store: RunStore, acceptance: Acceptance, clock: FakeClock, schedules: ScheduleBench
) -> None:
    """Old and new schedulers look at their packages in turns, and each sees a clock that is not its own."""
    other = ScheduleBench(store, acceptance, clock)
    schedules.packages = package_with_triggers(minutely("nightly"))
    other.packages = package_with_triggers(minutely("nightly", cron="30 * * * * *"))
    await schedules.scheduler.tick()
    for half_minutes in range(1, 13):
        for bench, late in ((other, 12), (schedules, 27)):  # the other one had it when its time came
            bench.packages = dict(bench.packages)
            await bench.ticks_at(clock, START + half_minutes * 30 * SECOND + late * SECOND)

    assert await nominal_times(store) == [NOON + number * 30 * SECOND for number in range(12)]
    assert "skipped" not in (await schedules.document())["counts"]


@pytest.mark.parametrize("edit", [{"end": "2026-07-01T00:00"}, {"timezone": "Europe/London"}, {"cron": "0 12 * * *"}])
async def test_an_edit_keeps_what_is_due_now_and_adds_the_new_clocks_time(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock, edit: dict[str, str]
) -> None:
    schedules.packages = package_with_triggers(minutely("nightly"))
    await schedules.scheduler.tick()

    schedules.packages = package_with_triggers(minutely("nightly", **{**edit, "timezone": edit.get("timezone", "UTC")}))
    await schedules.ticks_at(clock, NOON + SECOND)

    assert await nominal_times(store) == [NOON]


async def test_an_edited_cron_fires_next_by_the_new_one(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    schedules.declare(cron="* * * * *")
    await schedules.scheduler.tick()

    schedules.declare(cron="30 18 * * *")
    clock.now = NOON + SECOND
    await schedules.scheduler.tick()

    assert await nominal_times(store) == []
    assert (await schedules.stored_schedule())["next_at"] == datetime(2026, 6, 1, 18, 30, tzinfo=UTC)


async def test_an_edit_of_anything_else_keeps_the_next_time(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    schedules.declare(cron="* * * * *")
    await schedules.scheduler.tick()

    schedules.declare(cron="* * * * *", input={"report": "daily"})
    clock.now = NOON + SECOND
    await schedules.scheduler.tick()

    assert await nominal_times(store) == [NOON]


async def test_a_removed_schedule_stays_inactive_and_restarts_when_it_returns(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    schedules.declare(cron="* * * * *")
    await schedules.scheduler.tick()
    schedules.packages = {}
    clock.now = NOON + SECOND
    await schedules.scheduler.tick()
    assert "next_at" not in await schedules.stored_schedule()
    assert schedules.metric("schedule_next_fire_timestamp_seconds") is None

    schedules.declare(cron="* * * * *")
    clock.now = NOON + ROLLOUT + 30 * SECOND
    await schedules.scheduler.tick()

    document = await schedules.document()
    assert document["schedule"]["declared"] is True
    assert document["schedule"]["next_at"] > clock.now
    assert await nominal_times(store) == []


async def test_a_schedule_that_another_scheduler_hid_for_a_moment_loses_no_tick(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    schedules.declare(cron="* * * * *")
    await schedules.scheduler.tick()
    schedules.packages = {}
    await schedules.scheduler.tick()

    schedules.declare(cron="* * * * *")
    clock.now = NOON + SECOND
    await schedules.scheduler.tick()

    assert await nominal_times(store) == [NOON]


async def test_a_deleted_document_is_armed_again(schedules: ScheduleBench, clock: FakeClock) -> None:
    schedules.declare(cron="* * * * *")
    await schedules.scheduler.tick()
    await schedules.triggers.triggers.delete_many({})

    clock.now = START + timedelta(seconds=31)
    await schedules.scheduler.tick()

    assert (await schedules.stored_schedule())["next_at"] == NOON + timedelta(minutes=1)
