"""Packages cannot change the directory or files of their worker, nor leave a copy."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

import psutil
import pytest

from ops.processes.supervisor import PROGRAM
from tests.integration.stage import Stage, relay, wait_until
from workers.settings import as_environment

pytestmark = pytest.mark.integration

MOVES = """
import os

{body}
"""
IN_TOOL = "def act():\n    os.chdir('/')\n    return os.getcwd()"
IN_ASYNC_TOOL = "async def act():\n    os.chdir('/')\n    return os.getcwd()"
IN_IMPORT = "os.chdir('/')\ndef act():\n    return os.getcwd()"
MESSAGE = "it changed the working directory to /; it was restored to {home}"


def package_with_tool(name: str, source: str) -> Mapping[str, Any]:
    package = relay(name, ["A"])
    package["tools"] = {"tools": [{"agent": "A", "file": "act.py", "function": "act"}]}
    package["tools/act.py"] = source
    return package


@pytest.mark.parametrize(
    ("source", "where"),
    [(IN_TOOL, "act"), (IN_ASYNC_TOOL, "act"), (IN_IMPORT, "import act.py")],
    ids=["tool", "async tool", "import"],
)
async def test_a_tool_that_changes_the_directory_moves_no_other_run(stage: Stage, source: str, where: str) -> None:
    """By default packages and models are those of the start directory."""
    (stage.folder / "packages").rename(stage.folder / "workflows")
    (stage.folder / "packages").symlink_to("workflows")
    stage.package("Later", relay("Later", ["B"]))
    stage.package("Mover", package_with_tool("Mover", MOVES.format(body=source)))
    stage.answers({"A": [{"tool_calls": [{"name": "act"}]}, {"text": "ok"}]}, default={"text": "ok"})
    await stage.start_worker(packages=(), models=None)

    mover = await stage.wait_for_end((await stage.accept("Mover")).run_id)
    later = await stage.wait_for_end((await stage.accept("Later")).run_id)

    assert (mover["state"], later["state"]) == ("succeeded", "succeeded"), later["outcome"]
    (turn,) = await stage.store.committed_turns(mover["_id"], up_to=1)
    incidents: list[dict[str, Any]] = [*mover["errors"], *turn["errors"]]
    (incident,) = incidents
    assert (incident["where"], incident["type"]) == (where, "WorkingDirectoryChanged")
    assert incident["message"] == MESSAGE.format(home=stage.folder)
    assert psutil.Process(stage.workers[0].pid).cwd() == str(stage.folder)


FORKS = """
import asyncio, os, time
from pathlib import Path

def note(name):
    Path(name).write_text(str(os.getpid()))

{body}
"""
RETURNS = """
def act():
    if os.fork() == 0:
        note("copy")
        return "from the copy"
    time.sleep(0.5)
    return "mine"
"""
RAISES = """
def act():
    if os.fork() == 0:
        note("copy")
        raise SystemExit(3)
    time.sleep(0.5)
    return "mine"
"""
AWAITS = """
async def act():
    never = asyncio.get_running_loop().create_future()  # in a copy there is no running loop to ask for one
    if os.fork() == 0:
        note("copy")
        await never
    await asyncio.sleep(0.5)
    return "mine"
"""
IN_A_LIBRARYS_THREAD = """
def fork():
    if os.fork() == 0:
        note("copy")
        return "from the copy"
    time.sleep(0.5)
    return "mine"

async def act():
    return await asyncio.to_thread(fork)
"""


@pytest.mark.parametrize(
    "body",
    [RETURNS, RAISES, AWAITS, IN_A_LIBRARYS_THREAD],
    ids=["returns", "raises", "awaits", "in a thread of asyncio"],
)
async def test_a_forked_copy_that_comes_back_from_its_tool_ends_there(stage: Stage, body: str) -> None:
    stage.package("Forker", package_with_tool("Forker", FORKS.format(body=body)))
    stage.package("Relay", relay("Relay", ["B"]))
    stage.answers({"A": [{"tool_calls": [{"name": "act"}]}, {"text": "ok"}]}, default={"text": "ok"})
    worker = await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Forker")).run_id)

    assert (run["state"], run["turn"], run["lease"]["token"]) == ("succeeded", 1, 1)
    (turn,) = await stage.store.committed_turns(run["_id"], up_to=1)
    assert "from the copy" not in str(turn)
    copy = int((stage.folder / "copy").read_text(encoding="ascii"))
    # An idle thread ends after 30 s, and the copy with it.
    await wait_until("the copy has ended", lambda: _has_ended(copy), within_s=10)
    assert worker.returncode is None
    assert (await stage.wait_for_end((await stage.accept("Relay")).run_id))["state"] == "succeeded"
    assert len(await stage.usage_rows(run["_id"])) == 2


SLEEPS = """
def act():
    if os.fork() == 0:
        note("copy")
        time.sleep(3600)
    while not Path("copy").exists():
        time.sleep(0.02)
    os.kill(os.getpid(), 9)
"""


async def test_a_sleeping_forked_copy_keeps_no_lease_or_port_and_gets_sigterm(stage: Stage) -> None:
    """The worker is killed: its runs are taken over, although the copy inherits all."""
    stage.package("Forker", package_with_tool("Forker", FORKS.format(body=SLEEPS)))
    stage.answers({"A": [{"tool_calls": [{"name": "act"}]}]}, default={"text": "ok"})
    worker = await stage.start_worker(lease_s=2)
    accepted = await stage.accept("Forker")
    await worker.wait()
    copy = int((stage.folder / "copy").read_text(encoding="ascii"))
    reconciler = stage.reconciler()

    async def taken_over() -> bool:
        await reconciler.run_pass()
        return bool((await stage.run(accepted.run_id))["state"] == "queued")

    try:
        await wait_until("the run is taken from its dead worker", taken_over)
        listening = [each for each in psutil.Process(copy).net_connections() if each.status == psutil.CONN_LISTEN]
        assert listening == []
        assert (await stage.run(accepted.run_id))["worker_losses"] == 1
        os.kill(copy, signal.SIGTERM)
        await wait_until("the copy has ended", lambda: _has_ended(copy))
    finally:
        if not await _has_ended(copy):
            os.kill(copy, signal.SIGKILL)


PROCESSES = """
import asyncio, multiprocessing, subprocess, sys, time
from concurrent.futures import ProcessPoolExecutor

def square(number):
    return number * number

def act():
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
        squares = list(pool.map(abs, [-1, -2, -3]))
    waits = multiprocessing.get_context("fork").Process(target=time.sleep, args=(3600,))
    waits.start()
    waits.terminate()
    waits.join(10)
    said = subprocess.run([sys.executable, "-c", "print('hello')"], capture_output=True, text=True).stdout.strip()
    return f"{squares} {waits.exitcode} {said}"
"""


@pytest.mark.parametrize("is_async", [False, True])
async def test_what_a_tool_starts_by_multiprocessing_and_subprocess_works(stage: Stage, is_async: bool) -> None:
    source = PROCESSES.replace("def act():", "async def act():") if is_async else PROCESSES
    stage.package("Starter", package_with_tool("Starter", source))
    stage.answers({"A": [{"tool_calls": [{"name": "act"}]}, {"text": "ok"}]})
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Starter")).run_id, within_s=60)

    assert run["state"] == "succeeded"
    (turn,) = await stage.store.committed_turns(run["_id"], up_to=1)
    assert "[1, 2, 3] -15 hello" in str(turn), turn


async def test_celerys_pool_of_processes_forks_and_works(stage: Stage) -> None:
    """They are forked before they contain a worker.

    Forks of tools and isolated runs come on top.
    """
    stage.package("Forker", package_with_tool("Forker", FORKS.format(body=RETURNS)))
    stage.package("Starter", package_with_tool("Starter", PROCESSES))
    stage.package("Relay", relay("Relay", ["B"]))
    stage.answers({"A": [{"tool_calls": [{"name": "act"}]}, {"text": "ok"}]}, default={"text": "ok"})
    celery = "from celery.__main__ import main; main()"
    program = f"import runpy, sys; runpy.run_path({str(PROGRAM)!r})['bind_packages'](); {celery}"
    with (stage.folder / "worker-0.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", program, "-A", "workers", "worker", "-P", "prefork", "-c", "2"),
            env=as_environment(stage.settings),
            stdout=log,
            stderr=log,
            cwd=stage.folder,
        )
    stage.workers.append(process)

    runs = [await stage.wait_for_end((await stage.accept(name)).run_id, within_s=60) for name in ("Forker", "Starter")]
    suspect = (await stage.accept("Relay", wake=False)).run_id
    await stage.store.runs.update_one({"_id": suspect}, {"$set": {"worker_losses": 2, "lane": "alone!acme"}})
    stage.wakeups.send(suspect)
    alone = await stage.wait_for_end(suspect, within_s=60)

    assert [run["state"] for run in (*runs, alone)] == ["succeeded"] * 3
    assert [line["alone"] for line in alone["history"]] == [True]
    turns = str([await stage.store.committed_turns(run["_id"], up_to=1) for run in runs])
    assert "[1, 2, 3] -15 hello" in turns
    assert "from the copy" not in turns


async def _has_ended(pid: int) -> bool:
    """An ended copy is a zombie until its parent collects it."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
