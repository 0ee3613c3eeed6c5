"""MongoDB goes away in the middle of runs: none fails for it, none is lost, none counts as a worker's death."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from pymongo.errors import PyMongoError

from ops.embedded.servers import embedded_servers
from tests.integration.stage import Stage, relay, until
from workers.run_store import RunStore, connect
from workers.services import Services
from workers.settings import Settings

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120)]

RUNS = 10


@pytest.fixture
async def own_mongodb_stage(servers: Services, tmp_path: Path) -> AsyncIterator[Stage]:
    """A MongoDB that this test alone may kill; it comes back on the same port."""
    async with embedded_servers(tmp_path / "mongodb", redis=False) as services:
        settings = Settings(
            mongodb_url=services.mongodb_url, redis_url=servers.redis_url, queue=tmp_path.name, lease_s=30
        )
        database = connect(settings.mongodb_url or "", database=settings.database)
        store = RunStore(database)
        await store.ensure_indexes()
        stage = Stage(settings, store, tmp_path)
        try:
            yield stage
        finally:
            await stage.close()
            await database.client.close()


def kill_mongod(stage: Stage) -> None:
    for each in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if any(str(stage.folder / "mongodb") in word for word in each.cmdline()) and "mongod" in each.name():
                each.kill()
                return


async def test_runs_go_on_when_it_is_back(own_mongodb_stage: Stage) -> None:
    stage = own_mongodb_stage
    stage.package("Relay", relay("Relay", ["A", "B", "C"]))
    stage.answers({agent: [{"text": agent, "delay_s": 0.7}] for agent in "ABC"})
    worker = await stage.start_worker()
    accepted = [await stage.accept("Relay") for _ in range(RUNS)]
    await stage.turn_is(accepted[0].run_id, 1)

    # The driver bridges a second by itself: it is kept down until a run has noticed.
    await until("a run notices", lambda: noticed_while_killed(stage))
    await until("MongoDB answers again", lambda: answers(stage))
    runs = [await stage.reconciled_until_ended(each.run_id, within_s=60) for each in accepted]

    assert worker.returncode is None
    assert {(run["state"], run["attempt"], run["worker_losses"]) for run in runs} == {("succeeded", 1, 0)}
    turns = await asyncio.gather(*(stage.agents_of(run["_id"]) for run in runs))
    assert turns == [["A", "B", "C"]] * RUNS
    rows = await asyncio.gather(*(stage.usage_rows(run["_id"]) for run in runs))
    assert all(len(each) >= 3 for each in rows), "an answer that a model gave is not in the ledger"


async def noticed_while_killed(stage: Stage) -> bool:
    kill_mongod(stage)
    return "usage_row_waits" in stage.log()


async def answers(stage: Stage) -> bool:
    try:
        await stage.store.database.command("ping")
    except PyMongoError:
        return False
    return True
