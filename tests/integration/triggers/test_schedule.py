"""Schedulers against a real MongoDB, on a clock that the test moves."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.trigger_packages import package_with
from triggers.acceptance import Acceptance
from triggers.schedule.metrics import ScheduleMetrics
from triggers.schedule.scheduler import IDLE_S, Scheduler
from triggers.schedule.store import ROLLOUT, ScheduleStore
from workers.store.run_store import RunStore
from workers.together import together
from workflows.package.models import Package
from workflows.package.trigger_specs.schedule import ScheduleSpec

pytestmark = pytest.mark.integration

START = datetime(2026, 6, 1, 11, 59, 30, tzinfo=UTC)
NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)


class Clock:
    def __init__(self, now: datetime = START) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


class Bench:
    """One scheduler with what a test wants to turn and see."""

    def __init__(self, store: RunStore, acceptance: Acceptance, clock: Callable[[], datetime]) -> None:
        self.registry = CollectorRegistry()
        self.packages: dict[str, Package] = {}
        self.schedules = ScheduleStore(store.database)
        self.scheduler = Scheduler(
            self.schedules,
            runs=store,
            acceptance=acceptance,
            packages=lambda: self.packages,
            metrics=ScheduleMetrics(self.registry),
            clock=clock,
        )

    def declare(self, **spec: Any) -> None:
        self.packages = package_with(ScheduleSpec.model_validate({"name": "nightly", "apps": ("acme",), **spec}))

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"unattended_{name}", {"trigger": "Digest/nightly", **labels})

    async def document(self) -> dict[str, Any]:
        found = await self.schedules.schedules.find_one({"_id": "Digest/nightly"})
        assert found is not None
        return found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bench(store: RunStore, acceptance: Acceptance, clock: Clock) -> Bench:
    return Bench(store, acceptance, clock)


async def _nominal(store: RunStore) -> list[datetime]:
    return sorted([run["trigger"]["nominal_at"] for run in await store.list()])


async def _finish_all(store: RunStore) -> None:
    await store.runs.update_many({}, {"$set": {"state": "succeeded"}})


async def test_a_schedule_first_fires_at_its_next_nominal_time_and_not_when_it_is_first_seen(
    bench: Bench, store: RunStore, clock: Clock
) -> None:
    bench.declare(cron="* * * * *")

    assert await bench.scheduler.tick() == IDLE_S
    assert await _nominal(store) == []

    clock.now = NOON
    await bench.scheduler.tick()
    assert await _nominal(store) == [NOON]
    document = await bench.document()
    assert document["last_at"] == NOON
    assert document["next_at"] == NOON + timedelta(minutes=1)


async def test_a_tick_starts_one_run_for_each_app_with_what_the_trigger_maps(
    bench: Bench, store: RunStore, clock: Clock
) -> None:
    bench.declare(
        cron="* * * * *",
        apps=("acme", "globex"),
        input={"report": "weekly", "at": "=nominal_at", "who": "=app_id"},
        message="=join(' ', ['for', app_id])",
    )
    await bench.scheduler.tick()

    clock.now = NOON + 2 * SECOND
    await bench.scheduler.tick()

    runs = {run["app_id"]: run for run in await store.list()}
    assert set(runs) == {"acme", "globex"}
    assert runs["acme"]["input"] == {"report": "weekly", "at": "2026-06-01T12:00:00+00:00", "who": "acme"}
    assert runs["globex"]["message"] == "for globex"
    assert runs["acme"]["trigger"]["id"] == "2026-06-01T12:00:00+00:00"
    assert runs["acme"]["trigger"]["type"] == "schedule"
    assert bench.metric("schedule_lag_seconds") == 2
    assert bench.metric("schedule_next_fire_timestamp_seconds") == (NOON + timedelta(minutes=1)).timestamp()


async def test_the_pause_until_the_next_look_ends_when_the_next_one_is_due(bench: Bench, clock: Clock) -> None:
    bench.declare(cron="* * * * *")
    await bench.scheduler.tick()

    clock.now = NOON - timedelta(milliseconds=200)

    assert await bench.scheduler.tick() == pytest.approx(0.2)


async def test_three_schedulers_with_skewed_clocks_fire_each_nominal_time_once(
    store: RunStore, acceptance: Acceptance, clock: Clock
) -> None:
    skews = (timedelta(0), timedelta(seconds=3), timedelta(seconds=-3))
    benches = [Bench(store, acceptance, lambda skew=skew: clock.now + skew) for skew in skews]  # type: ignore[misc]  # -- mypy cannot infer a lambda with a default
    for bench in benches:
        bench.declare(every="1s", overlap="allow")
    await benches[0].scheduler.tick()
    first = (await benches[0].document())["next_at"]

    for _ in range(100):
        clock.now += SECOND
        await together(bench.scheduler.tick() for bench in benches)
    await benches[1].scheduler.tick()  # what it had to leave in the last round, when another one was faster

    expected = [first + number * SECOND for number in range(int((clock.now + 3 * SECOND - first) / SECOND) + 1)]
    assert await _nominal(store) == expected


async def test_a_crash_between_accept_and_advance_repeats_nothing(bench: Bench, store: RunStore, clock: Clock) -> None:
    bench.declare(cron="* * * * *")
    await bench.scheduler.tick()
    clock.now = NOON
    await bench.scheduler.tick()

    await store.database["schedules"].update_one({}, {"$set": {"next_at": NOON}})
    await bench.scheduler.tick()

    assert await _nominal(store) == [NOON]
    assert (await bench.document())["next_at"] == NOON + timedelta(minutes=1)


async def test_an_overlap_is_skipped_and_recorded_with_its_reason(bench: Bench, store: RunStore, clock: Clock) -> None:
    bench.declare(cron="* * * * *")
    await bench.scheduler.tick()
    for minute in range(3):
        clock.now = NOON + timedelta(minutes=minute)
        await bench.scheduler.tick()

    document = await bench.document()
    assert await _nominal(store) == [NOON]
    assert document["skip_counts"] == {"overlap": 2}
    assert [(skip["reason"], skip["app_id"], skip["nominal_at"]) for skip in document["skips"]] == [
        ("overlap", "acme", NOON + timedelta(minutes=1)),
        ("overlap", "acme", NOON + timedelta(minutes=2)),
    ]
    assert bench.metric("schedule_skips_total", reason="overlap") == 2

    await _finish_all(store)
    clock.now = NOON + timedelta(minutes=3)
    await bench.scheduler.tick()
    assert await _nominal(store) == [NOON, clock.now]


async def test_one_apps_unfinished_run_does_not_hold_up_another_app(
    bench: Bench, store: RunStore, clock: Clock
) -> None:
    bench.declare(cron="* * * * *", apps=("acme", "globex"))
    await bench.scheduler.tick()
    clock.now = NOON
    await bench.scheduler.tick()
    await store.runs.update_many({"app_id": "globex"}, {"$set": {"state": "succeeded"}})

    clock.now = NOON + timedelta(minutes=1)
    await bench.scheduler.tick()

    assert sorted(run["app_id"] for run in await store.list()) == ["acme", "globex", "globex"]


async def test_overlap_allow_starts_a_run_beside_an_unfinished_one(bench: Bench, store: RunStore, clock: Clock) -> None:
    bench.declare(cron="* * * * *", overlap="allow")
    await bench.scheduler.tick()
    for minute in range(2):
        clock.now = NOON + timedelta(minutes=minute)
        await bench.scheduler.tick()

    assert len(await store.list()) == 2


async def test_after_downtime_the_policy_decides_and_the_rest_is_recorded(
    bench: Bench, store: RunStore, clock: Clock
) -> None:
    bench.declare(cron="0 * * * *", overlap="allow", misfire={"policy": "all", "max": 2, "grace": "60s"})
    await bench.scheduler.tick()

    clock.now = NOON + timedelta(hours=5, minutes=30)
    await bench.scheduler.tick()

    document = await bench.document()
    assert await _nominal(store) == [NOON + timedelta(hours=4), NOON + timedelta(hours=5)]
    assert document["skip_counts"] == {"over_max": 4}
    assert document["skips"][0]["until"] == NOON + timedelta(hours=3)
    assert bench.metric("schedule_misfires_total", reason="over_max") == 4
    assert bench.metric("schedule_misfires_total", reason="late_fired") == 2


async def test_an_edited_cron_fires_next_by_the_new_one(bench: Bench, store: RunStore, clock: Clock) -> None:
    bench.declare(cron="* * * * *")
    await bench.scheduler.tick()

    bench.declare(cron="30 18 * * *")
    clock.now = NOON + SECOND
    await bench.scheduler.tick()

    assert await _nominal(store) == []
    assert (await bench.document())["next_at"] == datetime(2026, 6, 1, 18, 30, tzinfo=UTC)


async def test_an_edit_of_anything_else_keeps_the_next_time(bench: Bench, store: RunStore, clock: Clock) -> None:
    bench.declare(cron="* * * * *")
    await bench.scheduler.tick()

    bench.declare(cron="* * * * *", input={"report": "daily"})
    clock.now = NOON + SECOND
    await bench.scheduler.tick()

    assert await _nominal(store) == [NOON]


async def test_a_removed_schedule_stays_as_inactive_and_starts_anew_when_it_comes_back_late(
    bench: Bench, store: RunStore, clock: Clock
) -> None:
    bench.declare(cron="* * * * *")
    await bench.scheduler.tick()
    bench.packages = {}
    clock.now = NOON + SECOND
    await bench.scheduler.tick()
    assert (await bench.document())["active"] is False
    assert bench.metric("schedule_next_fire_timestamp_seconds") is None

    bench.declare(cron="* * * * *")
    clock.now = NOON + ROLLOUT + 30 * SECOND
    await bench.scheduler.tick()

    document = await bench.document()
    assert document["active"] is True
    assert document["next_at"] > clock.now
    assert await _nominal(store) == []


async def test_a_schedule_that_another_scheduler_hid_for_a_moment_loses_no_tick(
    bench: Bench, store: RunStore, clock: Clock
) -> None:
    bench.declare(cron="* * * * *")
    await bench.scheduler.tick()
    bench.packages = {}
    await bench.scheduler.tick()

    bench.declare(cron="* * * * *")
    clock.now = NOON + SECOND
    await bench.scheduler.tick()

    assert await _nominal(store) == [NOON]


async def test_a_deleted_document_is_armed_again(bench: Bench, clock: Clock) -> None:
    bench.declare(cron="* * * * *")
    await bench.scheduler.tick()
    await bench.schedules.schedules.delete_many({})

    clock.now = START + timedelta(seconds=31)
    await bench.scheduler.tick()

    assert (await bench.document())["next_at"] == NOON + timedelta(minutes=1)


async def test_a_schedule_without_apps_is_inactive_and_said_once(
    bench: Bench, store: RunStore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    bench.declare(cron="* * * * *", apps=())
    for _ in range(3):
        clock.now += timedelta(minutes=1)
        await bench.scheduler.tick()

    assert await store.list() == []
    assert [record.message for record in caplog.records].count("schedule_inactive") == 1


async def test_a_tick_that_cannot_be_mapped_is_skipped_and_the_next_one_comes(
    bench: Bench, store: RunStore, clock: Clock
) -> None:
    bench.declare(cron="* * * * *", input={"bad": "=abs(app_id)"})
    await bench.scheduler.tick()
    clock.now = NOON
    await bench.scheduler.tick()

    document = await bench.document()
    assert await store.list() == []
    assert document["skip_counts"] == {"unmappable": 1}
    assert document["next_at"] == NOON + timedelta(minutes=1)


async def test_only_the_last_skips_are_kept_and_all_are_counted(bench: Bench, store: RunStore, clock: Clock) -> None:
    bench.declare(cron="* * * * *")
    await bench.scheduler.tick()
    for minute in range(25):
        clock.now = NOON + timedelta(minutes=minute)
        await bench.scheduler.tick()

    document = await bench.document()
    assert len(document["skips"]) == 20
    assert document["skip_counts"] == {"overlap": 24}
    assert len(await store.list()) == 1
