"""Packages that hang at import, or would end their worker, on a real worker."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.role_forks import FORKS
from tests.integration.stage import ENDED, Stage, relay, wait_until
from workers.settings import as_environment

pytestmark = pytest.mark.integration

PLACES = 4
WITHIN_S = 2.0
HANGS = "import threading\nthreading.Event().wait()\n\ndef work():\n    return 1\n"
ENDS = "raise KeyboardInterrupt\n\ndef work():\n    return 1\n"
ODD = """
class Odd(list):
    def __iter__(self):
        raise SystemExit("away")

def work(context_variables):
    context_variables.set("odd", Odd([1]))
"""
LEAVES = """
import asyncio
import sys

async def leave():
    sys.exit("away")

async def work():
    await asyncio.wait_for(leave(), 5)
"""


def package(stage: Stage, name: str, source: str) -> None:
    files = relay(name, ["A"])
    files["tools"] = {"tools": [{"agent": "A", "file": "work.py", "function": "work"}]}
    files["tools/work.py"] = source
    stage.package(name, files)


async def start_hasty_worker(stage: Stage) -> None:
    settings = replace(stage.settings, concurrency=PLACES, max_attempts=2)
    program = str(Path(__file__).with_name("hasty_worker.py"))
    stage.workers.append(
        await FORKS.start(
            [sys.executable, "-P", program, str(WITHIN_S)],
            env=as_environment(settings),
            log=stage.folder / "worker-0.log",
            folder=stage.folder,
        )
    )

    async def is_ready() -> bool:
        return "worker_ready" in stage.log()

    await wait_until("the worker is ready", is_ready)


async def test_a_hanging_import_costs_only_its_own_runs_their_attempts(stage: Stage) -> None:
    package(stage, "Hangs", HANGS)
    stage.package("Well", relay("Well", ["B"]))
    await start_hasty_worker(stage)
    hanging = [(await stage.accept("Hangs")).run_id for _ in range(2 * PLACES)]

    async def all_places_are_taken() -> bool:
        return await stage.store.runs.count_documents({"state": "running"}) == PLACES

    await wait_until("runs that hang have every place", all_places_are_taken)
    well = await stage.wait_for_end((await stage.accept("Well")).run_id, within_s=WITHIN_S + 5)
    assert well["state"] == "succeeded"

    reconciler = stage.reconciler()

    async def all_have_ended() -> bool:
        await reconciler.run_pass()
        return await stage.store.runs.count_documents({"state": {"$in": sorted(ENDED)}}) == len(hanging) + 1

    await wait_until("the attempts of all are used up", all_have_ended)
    runs = await stage.store.runs.find({"_id": {"$in": hanging}}).to_list(None)
    assert {(run["state"], run["attempt"], run["worker_losses"]) for run in runs} == {("parked", 2, 0)}
    assert {(run["outcome"]["kind"], run["outcome"]["error"]["type"]) for run in runs} == {
        ("package_error", "PackageSlow")
    }
    assert runs[0]["outcome"]["reason"].startswith("importing the files of Hangs takes longer than 2 s: what connects")
    assert stage.log().count("package_import_hangs") == 1


async def test_a_package_that_would_end_its_worker_ends_its_runs_only(stage: Stage) -> None:
    package(stage, "Ends", ENDS)
    package(stage, "Leaves", LEAVES)
    package(stage, "Odd", ODD)
    stage.package("Well", relay("Well", ["B"]))
    stage.answers({"A": [{"tool_calls": [{"name": "work"}]}, {"text": "went on"}]}, default={"text": "ok"})
    worker = await stage.start_worker()

    ends = await stage.wait_for_end((await stage.accept("Ends")).run_id)
    leaves = await stage.wait_for_end((await stage.accept("Leaves")).run_id)
    odd = await stage.wait_for_end((await stage.accept("Odd")).run_id)
    well = await stage.wait_for_end((await stage.accept("Well")).run_id)

    assert (ends["state"], ends["outcome"]["kind"]) == ("failed", "package_error")
    assert ends["outcome"]["reason"] == "work.py failed when it was loaded: KeyboardInterrupt:  (tools/work.py:1)"
    assert (odd["state"], odd["outcome"]["reason"]) == ("failed", "away")
    assert [run["state"] for run in (leaves, well)] == ["succeeded", "succeeded"]
    [turn] = await stage.store.committed_turns(leaves["_id"], up_to=1)
    assert [error["type"] for error in turn["errors"]] == ["SystemExit"]
    assert worker.returncode is None
