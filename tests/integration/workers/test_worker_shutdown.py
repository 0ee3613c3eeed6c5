"""Worker shutdown: in time for supervisors, with all runs handed back."""

import asyncio
import signal
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from ops.embedded.embedded_servers import embedded_servers
from tests.integration.stage import Stage, relay, wait_until
from tests.integration.workers.test_worker_health import frozen_process
from workers.embedded_services import Services
from workers.settings import Settings
from workers.store.run_store import RunStore, connect

pytestmark = pytest.mark.integration

GRANTED_S = 10
HANGING_IMPORT = "import threading\nthreading.Event().wait()\n\ndef work():\n    return 1\n"


async def stop_process(process: Process, *signals: signal.Signals, within_s: float = GRANTED_S) -> float:
    """Returns the seconds from the first signal to the end."""
    began = time.monotonic()
    for each in signals:
        process.send_signal(each)
        await asyncio.sleep(0.2)  # two signals at once arrive as one
    await asyncio.wait_for(process.wait(), within_s)
    return time.monotonic() - began


@pytest.mark.parametrize(
    ("signals", "answer_s", "turns"),
    [
        ((signal.SIGQUIT,), 60, 1),
        ((signal.SIGINT, signal.SIGINT), 60, 1),
        ((signal.SIGINT,), 1.5, 2),
        ((signal.SIGTERM, signal.SIGTERM), 1.5, 2),
    ],
)
async def test_every_way_to_stop_hands_runs_back(
    stage: Stage, signals: Sequence[signal.Signals], answer_s: float, turns: int
) -> None:
    """After the turn in progress, or at once where that is requested."""
    stage.package("Relay", relay("Relay", ["A", "B", "C"]))
    stage.answers({"A": [{"text": "one"}], "B": [{"text": "two", "delay_s": answer_s}]})
    worker = await stage.start_worker()
    run_id = (await stage.accept("Relay")).run_id
    await stage.wait_for_turn(run_id, 1)

    await stop_process(worker, *signals, within_s=5)

    run = await stage.run(run_id)
    assert worker.returncode == 0
    assert (run["state"], run["turn"], run["attempt"], run["worker_losses"]) == ("queued", turns, 1, 0)
    assert run["history"][-1]["ended"] == "handed_back"


async def test_a_longer_grace_lets_longer_turns_end(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A", "B", "C"]))
    stage.answers({"A": [{"text": "one"}], "B": [{"text": "two", "delay_s": 8}]})
    worker = await stage.start_worker(grace_s=12)
    run_id = (await stage.accept("Relay")).run_id
    await stage.wait_for_turn(run_id, 1)

    assert await stop_process(worker, signal.SIGTERM, within_s=14) > 7

    run = await stage.run(run_id)
    assert (worker.returncode, run["state"], run["turn"]) == (0, "queued", 2)
    assert [row["ok"] for row in await stage.usage_rows(run_id)] == [True, True], "a call was cut off"


@pytest.fixture
async def own_mongodb_stage(servers: Services, tmp_path: Path) -> AsyncIterator[Stage]:
    async with embedded_servers(tmp_path / "mongodb", redis=False) as services:
        settings = Settings(mongodb_url=services.mongodb_url, redis_url=servers.redis_url, queue=tmp_path.name)
        database = connect(settings.mongodb_url or "", database=settings.database)
        store = RunStore(database)
        await store.ensure_indexes()
        stage = Stage(settings, store, tmp_path)
        try:
            yield stage
        finally:
            await stage.close()
            await database.client.close()


async def test_a_frozen_mongodb_does_not_keep_it(own_mongodb_stage: Stage) -> None:
    stage = own_mongodb_stage
    stage.package("Relay", relay("Relay", ["A", "B"]))
    stage.answers({"A": [{"text": "one"}], "B": [{"text": "two", "delay_s": 60}]})
    worker = await stage.start_worker()
    run_id = (await stage.accept("Relay")).run_id
    await stage.wait_for_turn(run_id, 1)

    with frozen_process(stage, "mongod"):
        await stop_process(worker, signal.SIGTERM)

    run = await stage.run(run_id)
    assert worker.returncode == 1
    assert "runs_cut_off" in stage.log()
    assert (run["state"], run["turn"], run["attempt"]) == ("running", 1, 1)  # it is reclaimed when its lease expires


async def test_an_import_that_hangs_does_not_keep_it(stage: Stage) -> None:
    package = relay("Hang", ["A"])
    package["tools"] = {"tools": [{"agent": "A", "file": "work.py", "function": "work"}]}
    package["tools/work.py"] = HANGING_IMPORT
    stage.package("Hang", package)
    worker = await stage.start_worker()
    run_id = (await stage.accept("Hang")).run_id

    async def is_running() -> bool:
        return bool((await stage.run(run_id))["state"] == "running")

    await wait_until("the run is claimed", is_running)

    await stop_process(worker, signal.SIGQUIT)  # only a cut-off after the grace period shows in the exit code

    run = await stage.run(run_id)
    assert (worker.returncode, run["state"], run["worker_losses"]) == (0, "queued", 0)
