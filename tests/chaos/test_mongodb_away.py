"""MongoDB goes away in the middle of runs: none fails for it, none is lost, none counts as a worker's death."""

import asyncio

import pytest

from tests.chaos.own_servers import kill_mongod, wait_for_mongodb
from tests.integration.stage import Stage, relay, wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120)]

RUNS = 10


async def test_runs_go_on_when_it_is_back(own_mongodb_stage: Stage) -> None:
    stage = own_mongodb_stage
    stage.package("Relay", relay("Relay", ["A", "B", "C"]))
    stage.answers({agent: [{"text": agent, "delay_s": 0.7}] for agent in "ABC"})
    worker = await stage.start_worker()
    accepted = [await stage.accept("Relay") for _ in range(RUNS)]
    await stage.wait_for_turn(accepted[0].run_id, 1)

    # The driver bridges a second by itself: it is kept down until a run has noticed.
    await wait_until("a run notices", lambda: kill_until_noticed(stage))
    await wait_for_mongodb(stage)
    runs = [await stage.reconcile_until_end(each.run_id, within_s=60) for each in accepted]

    assert worker.returncode is None
    assert {(run["state"], run["attempt"], run["worker_losses"]) for run in runs} == {("succeeded", 1, 0)}
    turns = await asyncio.gather(*(stage.agents_of(run["_id"]) for run in runs))
    assert turns == [["A", "B", "C"]] * RUNS
    rows = await asyncio.gather(*(stage.usage_rows(run["_id"]) for run in runs))
    assert all(len(each) >= 3 for each in rows), "an answer that a model gave is not in the ledger"


async def kill_until_noticed(stage: Stage) -> bool:
    kill_mongod(stage.settings.mongodb_url)
    return any(event in stage.log() for event in ("usage_row_waits", "run_interrupted"))
