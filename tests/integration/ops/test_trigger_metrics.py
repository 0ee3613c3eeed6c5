"""Paused triggers in the exporter's snapshot: each pause once, found by what is paused and not by what exists."""

from datetime import UTC, datetime
from typing import Any

import pytest

from ops.exporter.pauses import pipelines
from ops.exporter.snapshot import take_snapshot
from triggers.register.record import Pause
from triggers.register.store import TriggerStore
from triggers.register.trigger import Trigger
from workers.store.run_store import RunStore
from workflows.package.trigger_specs.schedule import ScheduleSpec

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
    paused = (await take_snapshot(store.database)).paused
    await triggers.resume(hourly("made", "acme"))
    await triggers.resume(hourly("of-apps"), app_id="acme")

    assert paused == {"operator": 1, "failures": 3}
    assert (await take_snapshot(store.database)).paused == {"operator": 1, "failures": 1}


async def test_of_many_triggers_only_those_that_are_paused_are_looked_at(store: RunStore) -> None:
    triggers = TriggerStore(store.database)
    await triggers.ensure_indexes()
    await triggers.triggers.insert_many([{"_id": f"Digest/t{n}", "type": "schedule"} for n in range(1000)])
    await triggers.pause(hourly("t1"), PAUSE)
    await triggers.pause(hourly("t2"), PAUSE, app_id="acme")

    for pipeline in pipelines():
        command = {"aggregate": "triggers", "pipeline": pipeline, "cursor": {}}
        explained: dict[str, Any] = await store.database.command("explain", command, verbosity="executionStats")
        found = explained.get("executionStats") or explained["stages"][0]["$cursor"]["executionStats"]
        assert found["totalDocsExamined"] <= 1, explained
