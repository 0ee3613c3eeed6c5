"""Fan-out: one tick for the apps of a collection, in batches, in the background."""

import logging
from typing import Any

import pytest
from bson import ObjectId

from tests.chaos.lengths import by_length
from tests.integration.triggers.condition_wait import wait_until
from tests.integration.triggers.schedule_bench import MINUTE, NOON, FakeClock, ScheduleBench
from triggers.schedule.schedule_apps import APP_BATCH_SIZE
from triggers.schedule.schedule_kind import KIND
from triggers.schedule.scheduler import MAX_INLINE_RUNS
from workers.settings import Settings
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

APPS = {"collection": "Apps", "field": "name", "filter": {"plan": "paid"}}


async def test_each_usable_name_that_the_filter_finds_gets_one_run(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    known = ObjectId()
    names: list[Any] = ["acme", "globex", "acme", 7, known, "", "bell\x07", "x" * 201, None, True, 1.5, ["acme"], {}]
    await store.database["Apps"].insert_many([{"name": name, "plan": "paid"} for name in names])
    await store.database["Apps"].insert_many([{"name": "free", "plan": "free"}, {"plan": "paid"}])
    schedules.declare(cron="* * * * *", apps=APPS)
    await schedules.scheduler.tick()

    await schedules.ticks_at(clock, NOON)

    assert sorted(run["app_id"] for run in await store.list()) == sorted(["acme", "globex", "7", str(known)])
    document = await schedules.document()
    assert document["counts"] == {"accepted": 4, "skipped": {"unusable_app": 9}}
    assert document["schedule"]["next_at"] == NOON + MINUTE


async def test_the_collection_is_read_anew_at_each_tick(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    schedules.declare(cron="* * * * *", apps={"collection": "Apps"}, overlap="allow")
    await schedules.scheduler.tick()
    await schedules.ticks_at(clock, NOON)
    assert await schedules.skip_counts() == {"no_apps": 1}

    await store.database["Apps"].insert_one({"_id": "acme"})
    await schedules.ticks_at(clock, NOON + MINUTE)
    await store.database["Apps"].delete_one({})
    await store.database["Apps"].insert_one({"_id": "globex"})
    await schedules.ticks_at(clock, NOON + 2 * MINUTE)

    runs = await store.runs.find({}).sort("trigger.nominal_at", 1).to_list(None)
    assert [run["app_id"] for run in runs] == ["acme", "globex"]


async def test_ten_thousand_apps_are_started_without_delaying_a_small_schedule(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    count = by_length(short=3_000, long=10_000)
    await store.database["Apps"].insert_many([{"_id": f"app{number}"} for number in range(count)])
    schedules.declare(cron="* * * * *", apps={"collection": "Apps"})
    await schedules.create_schedule(cron="* * * * *")
    await schedules.scheduler.tick()
    clock.now = NOON

    await schedules.scheduler.tick()

    assert await store.runs.count_documents({"trigger.name": "made"}) == 1
    assert "accepted" not in (await schedules.document()).get("counts", {})
    clock.now = NOON + MINUTE
    await schedules.scheduler.tick()
    assert (await schedules.document("Digest/made@acme"))["counts"]["skipped"] == {"overlap": 1}

    await schedules.scheduler.wait_until_idle()
    assert (await schedules.document())["counts"]["accepted"] == count
    assert len(await store.runs.distinct("app_id", {"trigger.name": "nightly"})) == count


async def _has_any_run(store: RunStore) -> bool:
    return await store.runs.find_one({}, {"_id": 1}) is not None


async def test_a_fan_out_that_broke_off_is_taken_up_and_makes_what_is_missing(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    count = 3 * APP_BATCH_SIZE
    await store.database["Apps"].insert_many([{"_id": f"app{number:05}"} for number in range(count)])
    schedules.declare(cron="* * * * *", apps={"collection": "Apps"}, overlap="allow")
    await schedules.scheduler.tick()
    clock.now = NOON

    await schedules.scheduler.tick()
    await wait_until(lambda: _has_any_run(store), "a first portion")
    await schedules.scheduler.stop()

    broken_off = await store.runs.count_documents({})
    assert 0 < broken_off < count
    assert (await schedules.stored_schedule())["next_at"] == NOON

    other = ScheduleBench(store, schedules.context.acceptance, clock)
    other.packages = schedules.packages
    await other.ticks_at(clock, NOON)

    assert len(await store.runs.distinct("app_id")) == await store.runs.count_documents({}) == count
    assert (await schedules.document())["counts"] == {"accepted": count}
    assert "duplicate_dropped" not in {record.message for record in caplog.records}
    assert (await schedules.stored_schedule())["next_at"] == NOON + MINUTE


async def test_a_long_list_of_apps_goes_on_beside_the_others_too(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    schedules.declare(cron="* * * * *", apps=tuple(f"app{number}" for number in range(MAX_INLINE_RUNS + 1)))
    await schedules.scheduler.tick()

    await schedules.ticks_at(clock, NOON)

    assert await store.runs.count_documents({}) == MAX_INLINE_RUNS + 1


@pytest.mark.parametrize(
    ("apps", "why"),
    [
        ({"collection": "runs"}, "belongs to Unattended itself"),
        ({"collection": "system.users", "database": "admin"}, "belongs to the database server"),
        ({"collection": "Apps", "filter": {"$or": [{"$where": "true"}]}}, "$where"),
        ({"collection": "Apps", "filter": {"name": {"$near": "me"}}}, ""),
        ({"collection": "A$b", "field": "a..b"}, ""),
    ],
)
async def test_apps_that_must_not_or_cannot_be_read_are_a_recorded_skip(
    schedules: ScheduleBench, clock: FakeClock, settings: Settings, apps: dict[str, Any], why: str
) -> None:
    trigger = schedules.declare(cron="* * * * *", apps=apps)
    await schedules.scheduler.tick()

    await schedules.ticks_at(clock, NOON)

    [note] = (await schedules.document())["notes"]
    assert note["reason"] == "apps_unreadable"
    assert why in note["detail"]
    assert (await schedules.stored_schedule())["next_at"] == NOON + MINUTE
    assert (KIND.inactive_reason(trigger, settings) is not None) == (why != "")
