"""Schedules that were made at run time: armed when made, found when due, mended when damaged."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson.datetime_ms import DatetimeMS
from pymongo import InsertOne

from tests.chaos.lengths import by_length
from tests.integration.triggers.schedule_bench import (
    MINUTE,
    NOON,
    SECOND,
    START,
    FakeClock,
    ScheduleBench,
    nominal_times,
)
from triggers.acceptance import Acceptance
from triggers.schedule.schedule_kind import KIND
from triggers.schedule.schedule_metrics import MAX_RUNTIME_TRIGGERS
from triggers.schedule.schedule_store import ScheduleRepair
from triggers.schedule.scheduler import IDLE_INTERVAL_S
from workers.settings import Settings
from workers.store.run_store import RunStore
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec

pytestmark = pytest.mark.integration

MADE = "Digest/made@acme"


async def test_it_fires_for_its_app_and_is_counted_in_its_document(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    await schedules.create_schedule(cron="* * * * *", input={"at": "=nominal_at", "who": "=app_id"})

    await schedules.ticks_at(clock, START, NOON)

    [run] = await store.list()
    assert run["app_id"] == "acme"
    assert run["input"] == {"at": NOON.isoformat(), "who": "acme"}
    document = await schedules.document(MADE)
    assert document["counts"]["accepted"] == 1
    assert document["last_fired_at"] == NOON
    assert document["schedule"]["last_at"] == NOON
    assert document["schedule"]["next_at"] == NOON + MINUTE
    assert schedules.metric("schedule_next_fire_timestamp_seconds", trigger="Digest/made") is not None


async def test_a_moment_fires_once_and_has_ended_then(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock, settings: Settings
) -> None:
    made = await schedules.create_schedule(at="2026-06-01T14:00", timezone="Europe/Berlin")

    await schedules.ticks_at(clock, START, NOON, NOON + MINUTE)

    assert await nominal_times(store) == [NOON]
    kept = await schedules.stored_schedule(MADE)
    assert "next_at" not in kept
    assert kept["ended_at"] == NOON
    assert schedules.metric("schedule_next_fire_timestamp_seconds", trigger="Digest/made") is None
    outlook = await KIND.describe(made, await schedules.triggers.find(MADE), store.database, settings)
    assert outlook["nothing_next"] == "its last time has passed"

    await schedules.triggers.triggers.update_one({"_id": MADE}, {"$set": {"schedule.next_at": NOON}})
    await schedules.ticks_at(clock, NOON + 2 * MINUTE)
    assert await nominal_times(store) == [NOON]


async def test_it_fires_between_start_and_end(schedules: ScheduleBench, store: RunStore, clock: FakeClock) -> None:
    await schedules.create_schedule(every="1m", start="2026-06-01T12:02", end="2026-06-01T12:04", overlap="allow")

    await schedules.ticks_at(clock, *(NOON + number * MINUTE for number in range(8)))

    assert await nominal_times(store) == [NOON + number * MINUTE for number in (2, 3, 4)]
    assert "ended_at" in await schedules.stored_schedule(MADE)


async def test_an_edit_means_its_next_time_and_not_at_once(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    made = await schedules.create_schedule(cron="* * * * *")
    edited = replace(made, spec=ScheduleSpec(name="made", cron="30 18 * * *"))
    await schedules.triggers.replace(edited, expected_revision=1, extra_fields=KIND.initial_fields(edited, clock()))

    await schedules.ticks_at(clock, NOON + SECOND)

    assert await nominal_times(store) == []
    assert (await schedules.stored_schedule(MADE))["next_at"] == datetime(2026, 6, 1, 18, 30, tzinfo=UTC)


async def test_a_removed_one_fires_no_more(schedules: ScheduleBench, store: RunStore, clock: FakeClock) -> None:
    await schedules.create_schedule(cron="* * * * *")
    await schedules.ticks_at(clock, NOON)
    await schedules.triggers.remove(MADE)

    await schedules.ticks_at(clock, NOON + MINUTE)

    assert await nominal_times(store) == [NOON]
    assert await schedules.triggers.find(MADE) is None


async def test_a_packages_trigger_of_the_same_name_for_the_app_goes_before_it(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    await schedules.create_schedule(name="nightly", cron="* * * * *")
    await schedules.create_schedule(name="nightly", cron="* * * * *", app_id="globex")
    schedules.declare(cron="0 18 * * *", apps=("acme",))
    await schedules.scheduler.tick()

    await schedules.ticks_at(clock, NOON)

    assert [run["app_id"] for run in await store.list()] == ["globex"]
    assert await schedules.skip_counts("Digest/nightly@acme") == {"shadowed": 1}


async def test_without_its_workflow_it_waits_for_other_schedulers_then_skips(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    await schedules.create_schedule(cron="* * * * *")
    schedules.packages = {}

    await schedules.ticks_at(clock, NOON, NOON + 30 * SECOND, NOON + 59 * SECOND)
    assert (await schedules.stored_schedule(MADE))["next_at"] == NOON
    await schedules.ticks_at(clock, NOON + MINUTE)

    assert await nominal_times(store) == []
    assert await schedules.skip_counts(MADE) == {"no_workflow": 2}
    assert (await schedules.stored_schedule(MADE))["next_at"] == NOON + 2 * MINUTE


async def test_after_an_outage_a_scheduler_that_has_its_workflow_goes_first(
    schedules: ScheduleBench, store: RunStore, acceptance: Acceptance, clock: FakeClock
) -> None:
    await schedules.create_schedule(cron="0 12 * * *")
    older = ScheduleBench(store, acceptance, clock)
    older.packages = {}
    await older.ticks_at(clock, START)

    for bench in (older, schedules):
        await bench.ticks_at(clock, NOON + 5 * MINUTE)

    assert await nominal_times(store) == [NOON]


@pytest.mark.parametrize(
    "damage",
    [
        {"$unset": {"schedule": ""}},
        {"$unset": {"schedule.next_at": ""}},
        {"$set": {"schedule": None}},
        {"$set": {"schedule": "gone"}},
        {"$set": {"schedule.next_at": "tomorrow"}},
        {"$set": {"schedule.next_at": [NOON]}},
        {"$set": {"schedule": [{"next_at": NOON}]}},
        {"$set": {"schedule.next_at": DatetimeMS(-(10**15))}},
    ],
)
async def test_one_that_waits_for_no_time_is_armed_again(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock, damage: dict[str, Any]
) -> None:
    for app_id in ("acme", "globex", "initech"):
        await schedules.create_schedule(cron="* * * * *", app_id=app_id)
    await schedules.triggers.triggers.update_one({"_id": "Digest/made@globex"}, damage)

    mender = ScheduleRepair(store.database, clock=clock, batch_size=2)
    for _ in range(2):
        await mender.repair_next_batch()
    await schedules.ticks_at(clock, NOON)

    assert sorted(run["app_id"] for run in await store.list()) == ["acme", "globex", "initech"]


async def test_one_that_has_ended_or_is_unreadable_is_left_as_it_is(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    await schedules.create_schedule(at="2020-01-01T00:00")
    await schedules.create_schedule(name="newer", cron="* * * * *")
    newer = {"$set": {"spec.json": '{"name": "newer", "solar": "sunset"}'}, "$unset": {"schedule": ""}}
    await schedules.triggers.triggers.update_one({"_id": "Digest/newer@acme"}, newer)

    await ScheduleRepair(store.database, clock=clock).repair_next_batch()

    assert await store.database["triggers"].count_documents({"schedule.next_at": {"$exists": True}}) == 0


@pytest.mark.parametrize(
    "damage",
    [
        {"$set": {"spec.json": '{"name": "made", "cron": "* * * * *", "timezone": "Mars/Olympus"}'}},
        {"$set": {"spec.json": "no json"}},
        {"$set": {"paused": "yes"}},
        {"$set": {"workflow": None}, "$unset": {"revision": ""}},
        {"$set": {"notes": "none", "counts": 3}},
        {"$set": {"schedule.next_at": [NOON]}},
        {"$set": {"schedule": [{"next_at": NOON}]}},
        {"$set": {"schedule.next_at": DatetimeMS(-(10**15))}},
    ],
)
async def test_a_damaged_schedule_stops_no_other_and_is_logged_once(
    schedules: ScheduleBench,
    store: RunStore,
    clock: FakeClock,
    damage: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    await schedules.create_schedule(cron="* * * * *")
    await schedules.create_schedule(cron="* * * * *", app_id="globex", overlap="allow")
    await schedules.triggers.triggers.update_one({"_id": MADE}, damage)

    await schedules.ticks_at(clock, *(NOON + number * MINUTE for number in range(3)))

    assert await store.runs.count_documents({"app_id": "globex"}) == 3
    told = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == 1 or set(told) == {"schedules_not_written"}


async def test_an_idle_look_examines_nothing_however_many_there_are(schedules: ScheduleBench, clock: FakeClock) -> None:
    made = await schedules.create_schedule(cron="0 18 * * *")
    document = await schedules.document(MADE)
    more = range(by_length(short=10_000, long=100_000))
    for some in range(0, len(more), 10_000):
        copies = [{**document, "_id": f"{made.id}-{number}"} for number in more[some : some + 10_000]]
        await schedules.triggers.triggers.bulk_write([InsertOne(copy) for copy in copies], ordered=False)

    assert await schedules.scheduler.tick() == IDLE_INTERVAL_S

    look = {"schedule.next_at": {"$lte": clock.now + timedelta(seconds=IDLE_INTERVAL_S)}}
    found = schedules.triggers.triggers.find(look, {"notes": 0, "counts": 0}).sort("schedule.next_at", 1)
    plan = (await found.explain())["executionStats"]
    assert (plan["totalKeysExamined"], plan["totalDocsExamined"]) == (0, 0)


async def test_metrics_name_only_so_many_of_them(schedules: ScheduleBench, clock: FakeClock) -> None:
    for number in range(MAX_RUNTIME_TRIGGERS + 5):
        await schedules.create_schedule(name=f"made{number}", cron="* * * * *")

    await schedules.ticks_at(clock, NOON, NOON + MINUTE)

    skips = [
        sample.labels["trigger"]
        for metric in schedules.registry.collect()
        for sample in metric.samples
        if sample.name == "unattended_schedule_skips_total"
    ]
    assert len(skips) == MAX_RUNTIME_TRIGGERS + 1
    assert schedules.metric("schedule_skips_total", trigger="_other", reason="overlap") == 5
