"""Schedulers against a real MongoDB, on a clock that the test moves."""

from datetime import timedelta

import pytest

from accounting.infra.aio import gather_all
from tests.integration.triggers.schedule_bench import NOON, SECOND, FakeClock, ScheduleBench, finish_all, nominal_times
from triggers.acceptance import Acceptance
from triggers.schedule.scheduler import IDLE_INTERVAL_S
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration


async def test_a_schedule_first_fires_at_its_next_nominal_time_not_when_seen(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    schedules.declare(cron="* * * * *")

    assert await schedules.scheduler.tick() == IDLE_INTERVAL_S
    assert await nominal_times(store) == []

    clock.now = NOON
    await schedules.scheduler.tick()
    assert await nominal_times(store) == [NOON]
    document = await schedules.stored_schedule()
    assert document["last_at"] == NOON
    assert document["next_at"] == NOON + timedelta(minutes=1)


@pytest.mark.design("U-8", "D4-86")
async def test_a_tick_starts_one_run_for_each_app_with_what_the_trigger_maps(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    schedules.declare(
        cron="* * * * *",
        apps=("acme", "globex"),
        input={"report": "weekly", "at": "=nominal_at", "who": "=app_id"},
        message="=join(' ', ['for', app_id])",
    )
    await schedules.scheduler.tick()

    clock.now = NOON + 2 * SECOND
    await schedules.scheduler.tick()

    runs = {run["app_id"]: run for run in await store.list()}
    assert set(runs) == {"acme", "globex"}
    assert runs["acme"]["input"] == {"report": "weekly", "at": "2026-06-01T12:00:00+00:00", "who": "acme"}
    assert runs["globex"]["message"] == "for globex"
    assert runs["acme"]["trigger"]["id"] == "2026-06-01T12:00:00+00:00"
    assert runs["acme"]["trigger"]["type"] == "schedule"
    assert schedules.metric("schedule_lag_seconds") == 2
    assert schedules.metric("schedule_next_fire_timestamp_seconds") == (NOON + timedelta(minutes=1)).timestamp()


async def test_the_pause_until_the_next_look_ends_when_the_next_one_is_due(
    schedules: ScheduleBench, clock: FakeClock
) -> None:
    schedules.declare(cron="* * * * *")
    await schedules.scheduler.tick()

    clock.now = NOON - timedelta(milliseconds=200)

    assert await schedules.scheduler.tick() == pytest.approx(0.2)


async def test_three_schedulers_with_skewed_clocks_fire_each_nominal_time_once(
    store: RunStore, acceptance: Acceptance, clock: FakeClock
) -> None:
    skews = (timedelta(0), timedelta(seconds=3), timedelta(seconds=-3))
    benches = [ScheduleBench(store, acceptance, lambda skew=skew: clock.now + skew) for skew in skews]  # type: ignore[misc]  # -- mypy cannot infer a lambda with a default
    for bench in benches:
        bench.declare(every="1s", overlap="allow")
    await benches[0].scheduler.tick()
    first = (await benches[0].stored_schedule())["next_at"]

    for _ in range(100):
        clock.now += SECOND
        await gather_all(bench.scheduler.tick() for bench in benches)
    await benches[1].scheduler.tick()  # ticks of the last round that another one took first

    expected = [first + number * SECOND for number in range(int((clock.now + 3 * SECOND - first) / SECOND) + 1)]
    assert await nominal_times(store) == expected


async def test_a_crash_between_accept_and_advance_repeats_nothing(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    schedules.declare(cron="* * * * *")
    await schedules.scheduler.tick()
    clock.now = NOON
    await schedules.scheduler.tick()

    await schedules.triggers.triggers.update_one({}, {"$set": {"schedule.next_at": NOON}})
    await schedules.scheduler.tick()

    assert await nominal_times(store) == [NOON]
    assert (await schedules.stored_schedule())["next_at"] == NOON + timedelta(minutes=1)


async def test_an_overlap_is_skipped_and_recorded_with_its_reason(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    schedules.declare(cron="* * * * *")
    await schedules.scheduler.tick()
    for minute in range(3):
        clock.now = NOON + timedelta(minutes=minute)
        await schedules.scheduler.tick()

    document = await schedules.document()
    assert await nominal_times(store) == [NOON]
    assert await schedules.skip_counts() == {"overlap": 2}
    [skip] = document["notes"]
    assert (skip["reason"], skip["app_id"], skip["times"]) == ("overlap", "acme", 2)
    assert (skip["nominal_at"], skip["until"]) == (NOON + timedelta(minutes=1), NOON + timedelta(minutes=2))
    assert schedules.metric("schedule_skips_total", reason="overlap") == 2

    await finish_all(store)
    clock.now = NOON + timedelta(minutes=3)
    await schedules.scheduler.tick()
    assert await nominal_times(store) == [NOON, clock.now]


async def test_of_many_schedulers_one_counts_what_came_of_a_tick(
    store: RunStore, acceptance: Acceptance, clock: FakeClock, schedules: ScheduleBench
) -> None:
    benches = [schedules, *(ScheduleBench(store, acceptance, clock) for _ in range(3))]
    for bench in benches:
        bench.declare(cron="* * * * *")
    await schedules.scheduler.tick()

    for minute in range(3):
        clock.now = NOON + timedelta(minutes=minute)
        await gather_all(bench.scheduler.tick() for bench in benches)

    document = await schedules.document()
    assert document["counts"] == {"accepted": 1, "skipped": {"overlap": 2}}
    assert [note["times"] for note in document["notes"]] == [2]
    assert sum(bench.metric("schedule_skips_total", reason="overlap") or 0 for bench in benches) == 2


async def test_one_apps_unfinished_run_does_not_hold_up_another_app(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    schedules.declare(cron="* * * * *", apps=("acme", "globex"))
    await schedules.scheduler.tick()
    clock.now = NOON
    await schedules.scheduler.tick()
    await store.runs.update_many({"app_id": "globex"}, {"$set": {"state": "succeeded"}})

    clock.now = NOON + timedelta(minutes=1)
    await schedules.scheduler.tick()

    assert sorted(run["app_id"] for run in await store.list()) == ["acme", "globex", "globex"]


async def test_overlap_allow_starts_a_run_beside_an_unfinished_one(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    schedules.declare(cron="* * * * *", overlap="allow")
    await schedules.scheduler.tick()
    for minute in range(2):
        clock.now = NOON + timedelta(minutes=minute)
        await schedules.scheduler.tick()

    assert len(await store.list()) == 2


async def test_after_downtime_the_policy_decides_and_the_rest_is_recorded(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    schedules.declare(cron="0 * * * *", overlap="allow", misfire={"policy": "all", "max": 2, "grace": "60s"})
    await schedules.scheduler.tick()

    clock.now = NOON + timedelta(hours=5, minutes=30)
    await schedules.scheduler.tick()

    document = await schedules.document()
    assert await nominal_times(store) == [NOON + timedelta(hours=4), NOON + timedelta(hours=5)]
    assert await schedules.skip_counts() == {"over_max": 4}
    assert document["notes"][0]["until"] == NOON + timedelta(hours=3)
    assert schedules.metric("schedule_misfires_total", reason="over_max") == 4
    assert schedules.metric("schedule_misfires_total", reason="late_fired") == 2


async def test_a_schedule_without_apps_is_inactive_and_logged_once(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    schedules.declare(cron="* * * * *", apps=())
    for _ in range(3):
        clock.now += timedelta(minutes=1)
        await schedules.scheduler.tick()

    assert await store.list() == []
    assert [record.message for record in caplog.records].count("schedule_inactive") == 1


async def test_a_tick_that_cannot_be_mapped_is_skipped_and_the_next_one_comes(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    schedules.declare(cron="* * * * *", input={"bad": "=abs(app_id)"})
    await schedules.scheduler.tick()
    clock.now = NOON
    await schedules.scheduler.tick()

    document = await schedules.document()
    assert await store.list() == []
    assert await schedules.skip_counts() == {"unmappable": 1}
    assert document["schedule"]["next_at"] == NOON + timedelta(minutes=1)


async def test_a_schedule_whose_last_time_is_skipped_has_ended(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    schedules.declare(cron="* * * * *", end=NOON + timedelta(minutes=1))
    await schedules.scheduler.tick()
    for minute in range(2):
        clock.now = NOON + timedelta(minutes=minute)
        await schedules.scheduler.tick()

    kept = await schedules.stored_schedule()
    assert (await schedules.skip_counts(), await nominal_times(store)) == ({"overlap": 1}, [NOON])
    assert (kept["ended_at"], kept.get("next_at")) == (clock.now, None)


async def test_skips_for_one_reason_are_one_note_and_all_are_counted(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    schedules.declare(cron="* * * * *")
    await schedules.scheduler.tick()
    for minute in range(25):
        clock.now = NOON + timedelta(minutes=minute)
        await schedules.scheduler.tick()

    document = await schedules.document()
    assert [(note["times"], note["first_at"], note["at"]) for note in document["notes"]] == [
        (24, NOON + timedelta(minutes=1), NOON + timedelta(minutes=24))
    ]
    assert await schedules.skip_counts() == {"overlap": 24}
    assert len(await store.list()) == 1
