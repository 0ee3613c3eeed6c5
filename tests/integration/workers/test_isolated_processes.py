"""Isolated runs: a suspect runs in a process of its own, next to a worker that goes on with all other runs."""

import os
import signal
from typing import Any

import pytest

from tests.integration.stage import Stage, relay, wait_until
from workers.store.worker_losses import MAX_ISOLATED_LOSSES

pytestmark = pytest.mark.integration

TOOL = """
import asyncio, os, signal
from pathlib import Path

async def work(context_variables=None):
    Path("pid").write_text(str(os.getpid()))
    while not Path("go").exists():
        await asyncio.sleep(0.02)
    return "done"

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def leave():
    os._exit(0)
"""
LEASE_S = 3
HANGING_SERVER = """
import subprocess
from datetime import timedelta
from workers.celery import settings_loader
from workers.process import isolated_processes
from workers.worker_timings import IsolationTimings, WorkerTimings

start_server, started = isolated_processes.start_server, []

def start_hanging_server(settings):
    started.append(settings)
    if len(started) > 1:
        return start_server(settings)
    return subprocess.Popen(["sleep", "600"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

impatient = IsolationTimings(start_timeout_s=10.0, retry_delay=timedelta(0))
settings_loader().timings = WorkerTimings(isolation=impatient)
isolated_processes.start_server = start_hanging_server
"""


async def accept_suspect(stage: Stage, tool: str, *, losses_alone: int = 0, **settings: Any) -> str:
    """Inserts a run with two shared losses, and some isolated ones."""
    package = relay("Suspect", ["A"])
    package["tools"] = {"tools": [{"agent": "A", "file": "tool.py", "function": tool}]}
    package["tools/tool.py"] = TOOL
    stage.package("Suspect", package)
    stage.package("Relay", relay("Relay", ["B"]))
    stage.answers({"A": [{"tool_calls": [{"name": tool}]}, {"text": "ok"}]}, default={"text": "ok"})
    await stage.start_worker(lease_s=LEASE_S, **settings)
    accepted = await stage.accept("Suspect", wake=False)
    lost = {"worker_losses": 2 + losses_alone, "losses_alone": losses_alone, "lane": "alone!acme"}
    await stage.store.runs.update_one({"_id": accepted.run_id}, {"$set": lost})
    stage.wakeups.send(accepted.run_id)
    return accepted.run_id


async def pid_of_suspect(stage: Stage) -> int:
    async def written() -> str:
        path = stage.folder / "pid"
        return path.read_text(encoding="ascii") if path.exists() else ""

    return int(await wait_until("the suspect's tool runs", written))


async def test_a_suspect_is_worked_on_in_a_process_of_its_own_while_others_go_on(stage: Stage) -> None:
    run_id = await accept_suspect(stage, "work")
    pid = await pid_of_suspect(stage)

    assert pid != stage.workers[0].pid
    assert (await stage.wait_for_end((await stage.accept("Relay")).run_id))["state"] == "succeeded"
    waiting = await stage.run(run_id)
    assert (waiting["state"], waiting["lease"]["alone"]) == ("running", True)
    (stage.folder / "go").touch()
    run = await stage.wait_for_end(run_id)

    assert (run["state"], run["worker_losses"], run["lease"]["token"]) == ("succeeded", 0, 1)
    assert [line["alone"] for line in run["history"]] == [True]
    await wait_until("its process has ended", lambda: _has_ended(pid))


@pytest.mark.parametrize("tool", ["die", "leave"])
async def test_a_process_killing_suspect_parks_after_five_and_its_worker_lives(stage: Stage, tool: str) -> None:
    run_id = await accept_suspect(stage, tool, losses_alone=3)

    run = await stage.reconcile_until_end(run_id, within_s=60)

    assert (run["state"], run["outcome"]["kind"], run["losses_alone"]) == ("parked", "worker_lost", MAX_ISOLATED_LOSSES)
    assert run["outcome"]["reason"] == "its worker was lost 7 times, 5 of them while it ran alone"
    assert [(line["ended"], line["alone"]) for line in run["history"]] == [("worker_lost", True)] * 2
    how = "SIGKILL" if tool == "die" else "exit code 0"
    assert run["history"][0]["reason"] == f"its process ended with {how}; 6 workers lost, 4 of them while it ran alone"
    assert stage.workers[0].returncode is None
    assert (await stage.wait_for_end((await stage.accept("Relay")).run_id))["state"] == "succeeded"


async def test_a_suspect_outlives_a_worker_that_is_killed(stage: Stage) -> None:
    """Otherwise other killers in its worker would stop it from ever finishing."""
    run_id = await accept_suspect(stage, "work")
    await pid_of_suspect(stage)

    stage.workers[0].send_signal(signal.SIGKILL)
    await stage.workers[0].wait()
    (stage.folder / "go").touch()
    run = await stage.wait_for_end(run_id)

    assert (run["state"], run["lease"]["token"]) == ("succeeded", 1)


async def test_a_worker_that_is_stopped_hands_its_suspect_back(stage: Stage) -> None:
    run_id = await accept_suspect(stage, "work", grace_s=1)
    pid = await pid_of_suspect(stage)

    stage.workers[0].send_signal(signal.SIGTERM)

    assert await stage.workers[0].wait() == 0
    run = await stage.run(run_id)
    assert (run["state"], run["worker_losses"], run["lane"]) == ("queued", 2, "alone!acme")
    assert [(line["ended"], line["alone"]) for line in run["history"]] == [("handed_back", True)]
    await wait_until("its process has ended", lambda: _has_ended(pid))


async def test_a_process_that_cannot_start_is_no_fault_of_the_run(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["B"]))
    await stage.start_worker(lease_s=LEASE_S)
    stage.models({"default": {"provider": "nobody's"}})
    run_id = (await stage.accept("Relay", wake=False)).run_id
    await stage.store.runs.update_one({"_id": run_id}, {"$set": {"worker_losses": 2, "lane": "alone!acme"}})
    stage.wakeups.send(run_id)

    async def handed_back() -> list[Any]:
        return list((await stage.run(run_id))["history"])

    (line,) = await wait_until("the run is handed back", handed_back)
    run = await stage.run(run_id)

    assert (line["ended"], line["reason"]) == ("handed_back", "the process for it could not start")
    assert (run["state"], run["worker_losses"], run.get("losses_alone", 0), run["attempt"]) == ("queued", 2, 0, 1)


async def test_a_server_of_processes_that_hangs_is_replaced(stage: Stage) -> None:
    """Otherwise its worker would renew the lease of a run that never begins, and keep its slot."""
    stage.package("Relay", relay("Relay", ["B"]))
    await stage.start_altered_worker(HANGING_SERVER)
    run_id = (await stage.accept("Relay", wake=False)).run_id
    await stage.store.runs.update_one({"_id": run_id}, {"$set": {"worker_losses": 2, "lane": "alone!acme"}})
    stage.wakeups.send(run_id)

    run = await stage.reconcile_until_end(run_id, within_s=60)

    assert [(line["ended"], line["reason"]) for line in run["history"][:1]] == [
        ("handed_back", "the process for it could not start")
    ]
    assert (run["state"], run["worker_losses"], run["attempt"]) == ("succeeded", 0, 1)


async def _has_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
