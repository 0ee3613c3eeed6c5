"""What a tick does while an earlier run of its trigger goes on; and jitter, pauses and failures, on real runs."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.integration.triggers.schedule_bench import (
    MINUTE,
    NOON,
    SECOND,
    FakeClock,
    ScheduleBench,
    finish_all,
    nominal_times,
)
from triggers.register.trigger_record import Pause
from triggers.schedule.schedule_backfill import make_backfill_runs, plan_backfill
from triggers.schedule.tick_requests import Tick
from triggers.schedule.tick_starter import TickStarter
from workers.control.run_cancellation import cancel
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

MINUTES = [NOON + number * MINUTE for number in range(6)]


async def states(store: RunStore) -> list[tuple[str, str | None]]:
    """Of all runs in the order of their ticks: the state, and what holds it."""
    found = store.runs.find({}).sort("trigger.nominal_at", 1)
    return [(run["state"], run["hold"]) async for run in found]


async def test_buffer_one_queues_one_behind_the_running_one_and_skips_the_next(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    schedules.declare(cron="* * * * *", overlap="buffer_one")
    await schedules.scheduler.tick()

    await schedules.ticks_at(clock, *MINUTES[:4])

    assert await states(store) == [("queued", None), ("queued", "concurrency")]
    assert await schedules.skip_counts() == {"buffer_full": 2}
    [note] = (await schedules.document())["notes"]
    assert [note["nominal_at"], note["until"]] == MINUTES[2:4]

    first = await store.runs.find_one({"trigger.nominal_at": NOON})
    assert first is not None
    await cancel(store, first["_id"], by="a test")
    await schedules.ticks_at(clock, MINUTES[4])

    assert await states(store) == [("cancelled", None), ("queued", None), ("queued", "concurrency")]


async def test_cancel_previous_stops_the_running_run_and_starts_after_its_end(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    schedules.declare(cron="* * * * *", overlap="cancel_previous")
    await schedules.scheduler.tick()
    await schedules.ticks_at(clock, NOON)
    await store.runs.update_one({}, {"$set": {"state": "running"}, "$unset": {"lane": 1}})

    await schedules.ticks_at(clock, MINUTES[1])

    running = await store.runs.find_one({"state": "running"})
    assert running is not None
    assert running["cancel_requested"]["by"].startswith("its schedule")
    assert await states(store) == [("running", None), ("queued", "concurrency")]

    await schedules.ticks_at(clock, MINUTES[2])

    assert await states(store) == [("running", None), ("cancelled", None), ("queued", "concurrency")]
    assert await schedules.skip_counts() == {}


async def test_cancel_previous_leaves_other_apps_and_other_triggers_alone(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    schedules.declare(cron="* * * * *", overlap="cancel_previous", apps=("acme", "globex"))
    await schedules.create_schedule(app_id="acme", cron="* * * * *", overlap="allow")
    await schedules.scheduler.tick()
    await schedules.ticks_at(clock, NOON)
    await store.runs.update_many({"app_id": "globex"}, {"$set": {"state": "succeeded"}})

    await schedules.ticks_at(clock, MINUTES[1])

    cancelled = await store.runs.find({"state": "cancelled"}).to_list(None)
    assert [(run["app_id"], run["trigger"]["name"]) for run in cancelled] == [("acme", "nightly")]
    assert await store.runs.count_documents({"trigger.name": "made", "state": "queued"}) == 2


async def test_a_tick_that_is_repeated_neither_skips_nor_cancels_its_own_run(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    for overlap in ("skip", "buffer_one", "cancel_previous"):
        schedules.declare(name=overlap, cron="* * * * *", overlap=overlap)
        clock.now = NOON - SECOND
        await schedules.scheduler.tick()
        await schedules.ticks_at(clock, NOON)
        await schedules.triggers.triggers.update_one({"_id": f"Digest/{overlap}"}, {"$set": {"schedule.next_at": NOON}})
        await schedules.scheduler.tick()

        assert await schedules.skip_counts(f"Digest/{overlap}") == {}

    assert await states(store) == [("queued", None)] * 3


@pytest.mark.parametrize("overlap", ["skip", "buffer_one", "cancel_previous"])
async def test_a_run_made_by_another_scheduler_meanwhile_is_no_self_overlap(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock, overlap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def not_yet(_starter: TickStarter, _ticks: object) -> set[Tick]:
        return set()

    schedules.declare(cron="* * * * *", overlap=overlap)
    await schedules.scheduler.tick()
    await schedules.ticks_at(clock, NOON)
    monkeypatch.setattr(TickStarter, "_find_existing", not_yet)

    await schedules.triggers.triggers.update_one({}, {"$set": {"schedule.next_at": NOON}})
    await schedules.scheduler.tick()

    assert await states(store) == [("queued", None)]
    assert await schedules.skip_counts() == {}


async def test_jitter_delays_the_start_and_neither_the_run_nor_its_key(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    clock.now = noon = datetime(2050, 6, 1, 12, 0, tzinfo=UTC)  # in the future: a past `not_before` is not stored
    apps = tuple(f"app{number}" for number in range(20))
    schedules.declare(every="1m", jitter="10m", apps=apps)
    await schedules.scheduler.tick()

    await schedules.ticks_at(clock, noon + MINUTE)

    runs = await store.runs.find({}).to_list(None)
    assert {run["trigger"]["id"] for run in runs} == {(noon + MINUTE).isoformat()}
    starts = {run["not_before"] for run in runs}
    assert len(starts) == 20
    assert noon + MINUTE <= min(starts) <= max(starts) < noon + 2 * MINUTE


async def test_a_paused_tick_is_recorded_and_never_made_up_for(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    trigger = schedules.declare(cron="* * * * *", overlap="allow", misfire={"policy": "all", "grace": "10m"})
    await schedules.scheduler.tick()
    await schedules.triggers.pause(trigger, Pause(clock(), "ann", "maintenance"))

    await schedules.ticks_at(clock, *MINUTES[:3])

    assert await nominal_times(store) == []
    assert await schedules.skip_counts() == {"paused": 3}
    assert schedules.metric("schedule_skips_total", reason="paused") == 3

    await schedules.triggers.resume(trigger)
    await schedules.triggers.triggers.update_one({}, {"$set": {"resumed_at": MINUTES[2] + SECOND}})
    await schedules.ticks_at(clock, MINUTES[3])

    assert await nominal_times(store) == [MINUTES[3]]


async def test_ticks_of_a_pause_are_not_made_up_even_without_a_scheduler(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    trigger = schedules.declare(cron="* * * * *", overlap="allow", misfire={"policy": "latest"})
    await schedules.scheduler.tick()
    await schedules.triggers.pause(trigger, Pause(clock(), "ann"))
    await schedules.triggers.resume(trigger)
    await schedules.triggers.triggers.update_one({}, {"$set": {"resumed_at": MINUTES[2] + SECOND}})

    await schedules.ticks_at(clock, MINUTES[5])

    assert await nominal_times(store) == MINUTES[3:6]
    assert await schedules.skip_counts() == {"paused": 3}


async def test_a_pause_for_one_app_leaves_the_others(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    trigger = schedules.declare(cron="* * * * *", apps=("acme", "globex"))
    await schedules.scheduler.tick()
    await schedules.triggers.pause(trigger, Pause(clock(), "ann"), app_id="acme")

    await schedules.ticks_at(clock, NOON)

    assert [run["app_id"] for run in await store.list()] == ["globex"]
    assert (await schedules.document())["notes"][0]["app_id"] == "acme"


async def test_failures_in_a_row_pause_that_app_until_it_is_resumed(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    now = datetime.now(UTC).replace(second=0, microsecond=0)  # failures before it was resumed count no more
    clock.now = now - 5 * MINUTE
    trigger = schedules.declare(cron="* * * * *", apps=("acme", "globex"), pause_after_failures=2)
    await schedules.scheduler.tick()
    for minutes in range(-4, 0):
        await schedules.ticks_at(clock, now + minutes * MINUTE)
        await store.runs.update_many({"app_id": "acme"}, {"$set": {"state": "failed"}})
        await store.runs.update_many({"app_id": "globex"}, {"$set": {"state": "succeeded"}})

    assert await store.runs.count_documents({"app_id": "acme"}) == 2
    assert await store.runs.count_documents({"app_id": "globex"}) == 4
    record = await schedules.triggers.find(trigger.id)
    assert record is not None
    pause = record.paused_apps["acme"]
    assert (pause.reason, pause.note) == ("failures", "its last 2 runs failed")
    assert await schedules.skip_counts() == {"paused": 2}
    assert [record.message for record in caplog.records].count("trigger_paused_after_failures") == 1

    await schedules.triggers.resume(trigger, app_id="acme")
    await schedules.ticks_at(clock, now + 2 * MINUTE)

    assert await store.runs.count_documents({"app_id": "acme", "state": "queued"}) == 1


async def test_a_success_between_failures_pauses_nothing(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    schedules.declare(cron="* * * * *", pause_after_failures=2)
    await schedules.scheduler.tick()
    for number, state in enumerate(["failed", "succeeded", "failed", "cancelled", "parked"]):
        await schedules.ticks_at(clock, MINUTES[number])
        await store.runs.update_one({"trigger.nominal_at": MINUTES[number]}, {"$set": {"state": state}})

    await schedules.ticks_at(clock, MINUTES[5])

    assert len(await nominal_times(store)) == 5
    assert (await schedules.document())["paused_apps"]["acme"]["pause"]["reason"] == "failures"


async def test_one_that_was_made_at_run_time_is_paused_as_a_whole(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    made = await schedules.create_schedule(every="1m", pause_after_failures=1)
    await schedules.ticks_at(clock, NOON)
    await finish_all(store, "failed")

    await schedules.ticks_at(clock, NOON + timedelta(minutes=1))

    record = await schedules.triggers.find(made.id)
    assert record is not None
    assert record.paused is not None
    assert record.paused.reason == "failures"


@pytest.mark.parametrize("overlap", ["skip", "buffer_one", "cancel_previous"])
async def test_a_backfill_goes_on_beside_the_ticks(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock, overlap: str
) -> None:
    trigger = schedules.declare(cron="* * * * *", overlap=overlap)
    await schedules.scheduler.tick()
    plan = await plan_backfill(trigger, start=NOON - 5 * MINUTE, end=NOON - MINUTE, store=store)
    await make_backfill_runs(plan, schedules.context.acceptance)

    await schedules.ticks_at(clock, NOON)

    assert await store.runs.count_documents({"state": "queued", "correlation_id": {"$regex": "^backfill_"}}) == 5
    assert await store.runs.count_documents({"state": "queued", "trigger.nominal_at": NOON, "hold": None}) == 1
    assert await schedules.skip_counts() == {}
