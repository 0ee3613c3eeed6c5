"""Backfill: what a range holds, what of it is missing, and runs for that."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tests.integration.triggers.schedule_bench import NOON, FakeClock, ScheduleBench, nominal_times
from triggers.register.trigger import Trigger
from triggers.schedule.schedule_backfill import BackfillError, make_backfill_runs, plan_backfill
from workers.control.run_cancellation import cancel
from workers.store.run_store import RunStore
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec

pytestmark = pytest.mark.integration

HOUR = timedelta(hours=1)
HOURS = [NOON + number * HOUR for number in range(5)]


def hourly(**spec: object) -> Trigger:
    return Trigger("Digest", ScheduleSpec.model_validate({"name": "nightly", "cron": "0 * * * *", **spec}))


async def test_a_plan_counts_and_changes_nothing(store: RunStore) -> None:
    plan = await plan_backfill(hourly(apps=("acme", "globex")), start=NOON, end=NOON + 4 * HOUR, store=store)

    assert list(plan.times) == HOURS
    assert (plan.runs, plan.new_runs) == (10, 10)
    assert await nominal_times(store) == []


async def test_what_ran_at_its_time_is_not_run_again(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    trigger = schedules.declare(cron="0 * * * *", misfire={"policy": "skip"})
    await schedules.scheduler.tick()
    await schedules.ticks_at(clock, HOURS[2])
    ran = await nominal_times(store)

    plan = await plan_backfill(trigger, start=NOON, end=HOURS[4], store=store)
    done = await make_backfill_runs(plan, schedules.context.acceptance)
    again = await make_backfill_runs(plan, schedules.context.acceptance)

    assert ran == [HOURS[2]]
    assert (plan.there_already, plan.new_runs) == (1, 4)
    assert (done.created, done.there_already) == (4, 1)
    assert (again.created, again.there_already) == (0, 5)
    assert await nominal_times(store) == HOURS


async def test_the_tick_itself_finds_what_a_backfill_has_made(
    schedules: ScheduleBench, store: RunStore, clock: FakeClock
) -> None:
    trigger = schedules.declare(cron="0 * * * *", overlap="allow")
    await schedules.scheduler.tick()
    await make_backfill_runs(
        await plan_backfill(trigger, start=NOON, end=NOON, store=store), schedules.context.acceptance
    )

    await schedules.ticks_at(clock, NOON)

    assert await nominal_times(store) == [NOON]


async def test_runs_of_an_app_go_one_after_another_from_the_oldest_on(
    schedules: ScheduleBench, store: RunStore
) -> None:
    plan = await plan_backfill(hourly(apps=("acme", "globex")), start=NOON, end=HOURS[4], store=store)
    await make_backfill_runs(plan, schedules.context.acceptance)

    for number in range(5):
        ready = await store.runs.find({"lane": {"$exists": True}}).to_list(None)
        assert {(run["app_id"], run["trigger"]["nominal_at"]) for run in ready} == {
            ("acme", HOURS[number]),
            ("globex", HOURS[number]),
        }
        for run in ready:
            await cancel(store, run["_id"], by="a test")


async def test_with_overlap_allowed_all_may_start_at_once(schedules: ScheduleBench, store: RunStore) -> None:
    told: list[int] = []
    plan = await plan_backfill(hourly(apps=("acme",)), start=NOON, end=HOURS[4], store=store)

    await make_backfill_runs(plan, schedules.context.acceptance, overlap="allow", on_progress=told.append)

    assert await store.runs.count_documents({"lane": "acme"}) == 5
    assert told == [5]


async def test_the_range_is_within_start_and_end_of_the_schedule_and_the_past(store: RunStore) -> None:
    bounded = hourly(apps=("acme",), start=HOURS[1], end=HOURS[3])

    plan = await plan_backfill(bounded, start=NOON, end=NOON + 48 * HOUR, store=store)
    until_now = await plan_backfill(
        hourly(apps=("acme",)), start=NOON, end=NOON + 48 * HOUR, store=store, now=NOON + 90 * timedelta(minutes=1)
    )

    assert list(plan.times) == HOURS[1:4]
    assert list(until_now.times) == HOURS[:2]


async def test_a_range_from_the_year_one_on_is_one_from_the_origin_of_time(store: RunStore) -> None:
    first = datetime(1, 1, 1, tzinfo=timezone(14 * HOUR))

    plan = await plan_backfill(hourly(apps=("acme",), cron="0 0 1 1 *"), start=first, end=NOON, store=store)

    assert len(plan.times) == 2026 - 1970 + 1


async def test_apps_of_a_collection_and_one_of_them(store: RunStore) -> None:
    await store.database["Apps"].insert_many([{"_id": "acme"}, {"_id": "globex"}])
    of_all = hourly(apps={"collection": "Apps"})

    every = await plan_backfill(of_all, start=NOON, end=NOON, store=store)
    one = await plan_backfill(of_all, start=NOON, end=NOON, store=store, app_id="globex")

    assert (list(every.apps), list(one.apps)) == (["acme", "globex"], ["globex"])


@pytest.mark.parametrize(
    ("spec", "asked", "said"),
    [
        ({"apps": ("acme",)}, {"start": NOON + HOUR, "end": NOON}, "ends before it begins"),
        ({"apps": ("acme",)}, {"start": NOON.replace(tzinfo=None)}, "with an offset"),
        ({"apps": ("acme",)}, {"app_id": "globex"}, "is not for globex; its apps are acme"),
        ({"apps": ()}, {}, "names no apps"),
        ({"apps": {"collection": "runs"}}, {}, "cannot be read"),
        ({"apps": {"collection": "Apps"}}, {"app_id": "acme"}, "does not name it"),
        ({"apps": ("acme",), "cron": "* * * * * *"}, {"start": NOON - 3 * HOUR}, "more than 10000 runs"),
        ({"apps": ("acme",), "input": {"bad": "=abs(app_id)"}}, {}, "no run can be created for 2026-06-01T12:00"),
    ],
)
async def test_an_impossible_backfill_is_refused_before_any_run_is_made(
    store: RunStore, spec: dict[str, object], asked: dict[str, object], said: str
) -> None:
    given = {"start": NOON, "end": HOURS[1], "now": datetime(2026, 7, 1, tzinfo=UTC), **asked}

    with pytest.raises(BackfillError, match=said):
        await plan_backfill(hourly(**spec), store=store, **given)  # type: ignore[arg-type]  # -- a table of arguments
    assert await nominal_times(store) == []


async def test_more_apps_than_runs_may_be_are_refused(store: RunStore) -> None:
    await store.database["Apps"].insert_many([{"_id": name} for name in ("a", "b", "c")])

    with pytest.raises(BackfillError, match="one app at a time"):
        await plan_backfill(hourly(apps={"collection": "Apps"}), start=NOON, end=NOON, store=store, max_runs=2)
