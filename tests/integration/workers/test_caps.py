"""Caps on real servers: a cap is never exceeded, and held runs go on when there is room."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.integration.stage import Stage, relay, wait_until
from tests.integration.workers.test_claim_lanes import hold_runs, insert_runs, max_gap, started_runs, wait_for_all_ends
from workers.admission.cap_settings import parse_caps
from workers.store.run_document import as_json
from workers.store.run_store import RunStore
from workers.store.start_rate_store import MAX_EARLY_S

pytestmark = pytest.mark.integration

WORK = """
import asyncio, time
from pathlib import Path

LOG = Path({log!r})


def noted(change):
    with LOG.open("a") as log:
        log.write(f"{{time.time():.6f}} {{change}}\\n")


async def work():
    noted(1)
    await asyncio.sleep(0.1)
    noted(-1)
    return "done"
"""


def write_work_package(stage: Stage, caps: str) -> None:
    """Writes a package with a tool that records concurrent work."""
    package = relay("Work", ["A"])
    package["tools"] = {"tools": [{"agent": "A", "file": "work.py", "function": "work"}]}
    package["tools/work.py"] = WORK.format(log=str(stage.folder / "work.log"))
    stage.package("Work", package)
    stage.answers({"A": [{"tool_calls": [{"name": "work"}]}, {"text": "worked"}]})
    set_caps(stage, caps)


def set_caps(stage: Stage, caps: str) -> None:
    stage.settings = replace(stage.settings, caps=parse_caps(caps))


def max_concurrent(stage: Stage) -> int:
    lines = [line.split() for line in (stage.folder / "work.log").read_text().splitlines()]
    now = most = 0
    for _, change in sorted((float(at), int(change)) for at, change in lines):
        now += change
        most = max(most, now)
    return most


@contextmanager
def reconciling(stage: Stage) -> Iterator[None]:
    """Runs the reconciler as the scheduler role does."""
    reconciler = stage.reconciler()

    async def once_a_second() -> None:
        while True:
            await reconciler.run_pass()
            await asyncio.sleep(1)

    task = asyncio.create_task(once_a_second())
    try:
        yield
    finally:
        task.cancel()


async def count_held(store: RunStore, **query: Any) -> int:
    return await store.runs.count_documents({"hold": {"$ne": None}, **query})


async def test_three_workers_never_exceed_a_cap_and_every_run_gets_its_turn(stage: Stage) -> None:
    write_work_package(stage, "app=3")
    for _ in range(3):
        await stage.start_worker(concurrency=8)
    for run_id in await insert_runs(stage.store, ["acme"] * 60, workflow="Work"):
        stage.wakeups.send(run_id)

    with reconciling(stage):
        await wait_for_all_ends(stage.store, within_s=60)

    assert await stage.store.runs.count_documents({"state": "succeeded", "attempt": 1}) == 60
    assert max_concurrent(stage) == 3
    assert "run_held" in stage.log()
    assert await stage.store.runs.count_documents({"held_by": {"$exists": True}}) == 0


async def test_a_workflow_at_its_cap_goes_round_the_apps_without_a_scheduler(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A"]))
    stage.package("Other", relay("Other", ["A"]))
    stage.answers({}, default={"text": "ok", "delay_s": 0.05})
    set_caps(stage, "workflow:Relay=1")
    apps = ["acme"] * 5 + ["globex"] * 5 + ["initech"] * 5
    await hold_runs(stage.store, "workflow:Relay", apps)
    await stage.start_worker()

    await stage.accept("Relay", app_id="acme")
    assert (await stage.wait_for_end((await stage.accept("Other")).run_id))["state"] == "succeeded"
    await wait_for_all_ends(stage.store)

    assert max_gap([run["app_id"] for run in await started_runs(stage.store, workflow="Relay")], apps) == 1


async def test_a_rate_spaces_the_starts_of_an_app_and_of_no_other(stage: Stage) -> None:
    per_s, count = 2, 8
    stage.package("Relay", relay("Relay", ["A"]))
    set_caps(stage, f"rate:acme={per_s}/s")
    await stage.start_worker()
    for run_id in await insert_runs(stage.store, ["acme"] * count + ["globex"] * 5):
        stage.wakeups.send(run_id)

    await wait_until("the rate holds some", lambda: count_held(stage.store, app_id="acme", hold="rate"))
    await wait_for_all_ends(stage.store, app_id="globex")
    with reconciling(stage):
        await wait_for_all_ends(stage.store)

    starts = [run["started_at"].timestamp() for run in await started_runs(stage.store, app_id="acme")]
    assert len(starts) == count
    slack_s = 0.5  # between a claim and its check of the rate
    for first in range(count):
        for last in range(first, count):
            most = (starts[last] - starts[first] + MAX_EARLY_S + slack_s) * per_s + 1
            assert last - first + 1 <= most
    assert starts[-1] - starts[0] < count / per_s + 2


async def test_a_run_held_by_a_dead_workers_run_continues_after_its_lease(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A", "B"]))
    stage.answers({"A": [{"text": "one"}], "B": [{"text": "two", "delay_s": 60}]}, default={"text": "ok"})
    stage.package("Short", relay("Short", ["C"]))
    set_caps(stage, "app=1")
    doomed = await stage.start_worker()
    long = (await stage.accept("Relay")).run_id
    await stage.wait_for_turn(long, 1)
    waiting = [(await stage.accept("Short")).run_id for _ in range(3)]
    await wait_until("the others are held", lambda: are_all_held(stage, waiting))
    [shown] = [as_json(run) for run in await stage.store.list() if run["_id"] == waiting[0]]
    assert (shown["state"], shown["hold"], shown["held_by"]) == ("queued", "concurrency", "app:acme")
    assert (shown["attempt"], shown["started_at"], shown["history"]) == (1, None, [])

    doomed.send_signal(signal.SIGKILL)
    await doomed.wait()
    stage.answers({"A": [{"text": "one"}], "B": [{"text": "two"}]}, default={"text": "ok"})
    await stage.start_worker()
    with reconciling(stage):
        ended = [await stage.wait_for_end(run_id) for run_id in [long, *waiting]]

    assert [run["state"] for run in ended] == ["succeeded"] * 4
    assert all(as_json(run)["hold"] is None and "held_by" not in as_json(run) for run in ended)


async def are_all_held(stage: Stage, run_ids: list[str]) -> bool:
    return await count_held(stage.store, _id={"$in": run_ids}) == len(run_ids)
