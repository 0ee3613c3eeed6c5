"""Somebody cancels while nobody works: what is cancelled never starts, and never goes on, whoever comes later."""

import asyncio
import signal

import pytest

from tests.integration.stage import Stage, relay
from workers.control.run_cancellation import cancel

pytestmark = pytest.mark.chaos


async def test_a_queued_run_cancelled_while_all_workers_are_down_never_starts(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A"]))
    accepted = [(await stage.accept("Relay")).run_id for _ in range(6)]
    await asyncio.wait_for(stage.wakeups.wait_until_published(), 10)
    unwanted, wanted = accepted[:3], accepted[3:]

    for run_id in unwanted:
        await cancel(stage.store, run_id, by="ops")
    await stage.start_worker()
    ended = [await stage.reconcile_until_end(run_id) for run_id in wanted]
    cancelled = [await stage.run(run_id) for run_id in unwanted]

    assert {run["state"] for run in ended} == {"succeeded"}
    assert {(run["state"], run["started_at"], run["lease"]["token"]) for run in cancelled} == {("cancelled", None, 0)}
    assert [await stage.usage_rows(run_id) for run_id in unwanted] == [[], [], []]


async def test_a_run_cancelled_after_its_worker_died_is_not_taken_over(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A", "B"]))
    stage.answers({"A": [{"text": "A"}], "B": [{"text": "B", "delay_s": 30}]})
    doomed = await stage.start_worker()
    run_id = (await stage.accept("Relay")).run_id
    await stage.wait_for_turn(run_id, 1)

    doomed.send_signal(signal.SIGKILL)
    await doomed.wait()
    await cancel(stage.store, run_id, by="ops")
    await stage.start_worker()
    run = await stage.reconcile_until_end(run_id)

    assert (run["state"], run["turn"], run["lease"]["token"]) == ("cancelled", 1, 1)
    assert run["outcome"]["reason"] == "cancelled by ops"
