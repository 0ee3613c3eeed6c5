"""Overlapping ticks on a real worker: what runs is let finish or is stopped, and the next one starts after it."""

from typing import Any

import pytest

from tests.integration.stage import Stage, relay, wait_until
from tests.integration.triggers.schedule_bench import MINUTE, NOON, FakeClock, ScheduleBench
from triggers.acceptance import Acceptance

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(("overlap", "ended"), [("buffer_one", "succeeded"), ("cancel_previous", "cancelled")])
async def test_the_next_run_starts_when_the_one_before_is_released(stage: Stage, overlap: str, ended: str) -> None:
    stage.package("Digest", relay("Digest", ["Writer"]))
    stage.answers({"Writer": [{"text": "done", "delay_s": 1.5}]})
    clock = FakeClock()
    bench = ScheduleBench(stage.store, Acceptance(stage.store, stage.wakeups), clock)
    await bench.ensure_indexes()
    bench.declare(cron="* * * * *", overlap=overlap)
    await bench.scheduler.tick()
    await stage.start_worker()

    async def first() -> dict[str, Any] | None:
        return await stage.store.runs.find_one({"trigger.nominal_at": NOON, "state": "running"})

    await bench.ticks_at(clock, NOON)
    await wait_until("the first run is at work", first)
    await bench.ticks_at(clock, NOON + MINUTE)
    second = await stage.store.runs.find_one({"trigger.nominal_at": NOON + MINUTE})
    assert second is not None
    assert second["hold"] == "concurrency"

    done = await stage.wait_for_end(second["_id"])
    before = await stage.store.runs.find_one({"trigger.nominal_at": NOON})
    assert before is not None
    assert (before["state"], done["state"]) == (ended, "succeeded")
    assert done["started_at"] >= before["finished_at"]
