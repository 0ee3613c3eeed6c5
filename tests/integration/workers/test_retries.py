"""Retries in the store: the next due time, and the fields that are reset."""

from datetime import timedelta
from typing import Any

import pytest

from tests.integration.stage import Document, Stage, relay, wait_until
from workers.steps.retry_policy import FIRST_DELAY_S
from workers.store.claimed_runs import MongoRunRepository

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("error", "asked_s"),
    [({"status": 429, "retry_after_s": 5}, 5), ({"status": 503}, 0)],
    ids=["the server names a time", "it does not"],
)
async def test_a_refused_run_is_due_after_its_backoff_and_not_before(
    stage: Stage, error: dict[str, Any], asked_s: float
) -> None:
    stage.package("Relay", relay("Relay", ["A"]))
    stage.answers({"A": [{"error": error}, {"text": "one"}]})
    run_id = (await stage.accept("Relay", wake=False)).run_id
    await stage.store.runs.update_one({"_id": run_id}, {"$set": {"wakes": 4}})
    await stage.start_worker()

    stage.wakeups.send(run_id)
    run = await wait_until("the run waits for its second attempt", lambda: second_attempt(stage, run_id))

    delay = run["not_before"] - run["last_requeue"]["at"]
    assert timedelta(seconds=asked_s) <= delay <= timedelta(seconds=asked_s + FIRST_DELAY_S)
    assert run["wake_at"] == run["not_before"]
    assert run["wakes"] == 0
    if asked_s:
        assert await MongoRunRepository(stage.store, owner="too early", lease_s=30).claim(run_id) is None


async def second_attempt(stage: Stage, run_id: str) -> Document | None:
    run = await stage.run(run_id)
    return run if (run["state"], run["attempt"]) == ("queued", 2) else None
