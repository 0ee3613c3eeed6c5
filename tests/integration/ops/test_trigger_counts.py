"""The triggers' state of the exporter: each pause counts once, found by an index of pauses."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ops.exporter.trigger_counts import (
    PAUSE_REASONS,
    created_pipeline,
    overdue_pipeline,
    paused_pipelines,
    read_trigger_counts,
)
from triggers.register.trigger import Trigger
from triggers.register.trigger_record import Pause
from triggers.register.trigger_store import TriggerStore
from workers.store.run_store import RunStore
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec

pytestmark = pytest.mark.integration

PAUSE = Pause(datetime(2026, 3, 1, tzinfo=UTC), "ada")
FAILURES = Pause(datetime(2026, 3, 1, tzinfo=UTC), "the scheduler", reason="failures")


def hourly(name: str, app_id: str | None = None) -> Trigger:
    return Trigger("Digest", ScheduleSpec.model_validate({"name": name, "every": "1h"}), app_id)


async def test_every_pause_is_counted_until_it_ends(store: RunStore) -> None:
    triggers = TriggerStore(store.database)
    await triggers.create(hourly("made", "acme"))
    await triggers.pause(hourly("made", "acme"), FAILURES)
    await triggers.pause(hourly("shared"), PAUSE)
    for app_id in ("acme", "glo.bex"):
        await triggers.pause(hourly("of-apps"), FAILURES, app_id=app_id)
    paused = (await read_trigger_counts(store.database)).paused
    await triggers.resume(hourly("made", "acme"))
    await triggers.resume(hourly("of-apps"), app_id="acme")

    assert paused == {**dict.fromkeys(PAUSE_REASONS, 0), "operator": 1, "failures": 3}
    assert (await read_trigger_counts(store.database)).paused == {
        **dict.fromkeys(PAUSE_REASONS, 0),
        "operator": 1,
        "failures": 1,
    }


async def test_what_was_made_at_run_time_is_counted_by_its_type(store: RunStore) -> None:
    triggers = TriggerStore(store.database)
    await triggers.ensure_indexes()
    for app_id in ("acme", "globex"):
        await triggers.create(hourly("made", app_id))
    await triggers.pause(hourly("of-a-package"), PAUSE)

    made = (await read_trigger_counts(store.database)).created_at_run_time

    assert made == {"schedule": 2, **dict.fromkeys(("database_condition", "webhook", "form_submit", "run_finished"), 0)}


async def test_schedules_are_overdue_when_no_scheduler_fires_them(store: RunStore) -> None:
    now = datetime.now(UTC)
    at = {"future": timedelta(hours=1), "past": timedelta(minutes=-5), "newer": timedelta(minutes=-1)}
    triggers = store.database["triggers"]
    await triggers.insert_one({"_id": "future", "schedule": {"next_at": now + at.pop("future")}})
    in_time = (await read_trigger_counts(store.database)).overdue_s
    await triggers.insert_many([{"_id": name, "schedule": {"next_at": now + each}} for name, each in at.items()])

    assert in_time == 0
    assert (await read_trigger_counts(store.database)).overdue_s == pytest.approx(300, abs=30)


async def test_of_many_triggers_only_those_that_are_paused_are_looked_at(store: RunStore) -> None:
    triggers = TriggerStore(store.database)
    await triggers.ensure_indexes()
    await triggers.triggers.insert_many([{"_id": f"Digest/t{n}", "type": "schedule"} for n in range(1000)])
    await triggers.pause(hourly("t1"), PAUSE)
    await triggers.pause(hourly("t2"), PAUSE, app_id="acme")

    for pipeline in (*paused_pipelines(), created_pipeline(), overdue_pipeline()):
        command = {"aggregate": "triggers", "pipeline": pipeline, "cursor": {}}
        explained: dict[str, Any] = await store.database.command("explain", command, verbosity="executionStats")
        found = explained.get("executionStats") or explained["stages"][0]["$cursor"]["executionStats"]
        assert found["totalDocsExamined"] <= 1, explained
