"""Crash points: a process dies at each named step of a run's way, and afterwards every run has ended as if none had.

accept → insert → publish → claim → turn → record → checkpoint → finish: see `workers/crash_points.py`.
"""

import asyncio
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest

from tests.chaos.dying_role import EVENTS
from tests.chaos.invariants import Verdict, judge_runs
from tests.chaos.lengths import add_summary_line, by_length
from tests.chaos.own_servers import stage_on
from tests.integration.stage import ENDED, Stage, relay, wait_until
from workers.crash_points import CrashPoint
from workers.settings import Settings, as_environment

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(by_length(short=120, long=240))]

ACCEPTANCE: tuple[CrashPoint, ...] = ("accepting", "inserted", "published")
OF_QUESTIONS = ("open turn kept",)  # these runs ask no person: see tests/integration/workers/test_run_answers.py
WORKER: tuple[CrashPoint, ...] = tuple(
    each for each in get_args(CrashPoint) if each not in (*ACCEPTANCE, *OF_QUESTIONS)
)
NTH = by_length(short=[3], long=[1, 3, 10])
LANDMARKS: tuple[CrashPoint, ...] = by_length(
    short=("inserted", "recorded", "documents written", "finishing"),
    long=(*ACCEPTANCE, *WORKER),
)
AT_ONCE = 7  # so many stages side by side: most of the time they wait for leases to end

CALLS = {"A": 2, "B": 1}
VISIT = """
def visit(context_variables=None):
    customer = dict(context_variables.get("customer") or {})
    customer["visits"] = (customer.get("visits") or 0) + 1
    context_variables.set("customer", customer)
    context_variables.set("greeting", {"text": "hello"})
    return "noted"
"""


def desk(stage: Stage) -> None:
    """A counts a visit, written back with its turn; the greeting is written when the run succeeds."""
    place = {"type": "data_entity", "database_name": stage.store.database.name, "search_by": "customer_id"}
    customer = {**place, "collection": "customers", "fields": ["visits"], "write_strategy": "immediate"}
    greeting = {**place, "collection": "greetings", "fields": ["text"], "write_strategy": "on_success"}
    package = relay("Desk", list(CALLS), inputs={"customer_id": {"type": "string", "required": True}})
    package["tools"] = {"tools": [{"agent": "A", "file": "visit.py", "function": "visit"}]}
    package["tools/visit.py"] = VISIT
    package["context_variables"] = {
        "definitions": {
            "customer": {"type": "object", "source": customer},
            "greeting": {"type": "object", "source": greeting},
        }
    }
    stage.package("Desk", package)
    stage.answers({"A": [{"tool_calls": [{"name": "visit"}]}, {"text": "noted"}], "B": [{"text": "done"}]})


async def process(stage: Stage, role: str, landmark: str, nth: int) -> tuple[int | None, Sequence[str]]:
    """How it ended, and which runs it said it had accepted."""
    with (stage.folder / f"dying-{role}.log").open("ab") as log:
        dying = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            str(Path(__file__).with_name("dying_role.py")),
            *(role, landmark, str(nth)),
            env=as_environment(stage.settings),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=log,
        )
    said, _ = await asyncio.wait_for(dying.communicate(), 60)
    return dying.returncode, said.decode().split()


async def wait_for_all_ends(stage: Stage) -> None:
    reconciler = stage.reconciler()

    async def nobody_waits() -> bool:
        await reconciler.run_pass()
        return await stage.store.runs.find_one({"state": {"$nin": sorted(ENDED)}}, {"_id": 1}) is None

    await wait_until("every run has ended", nobody_waits, within_s=60)


async def read_written_back(stage: Stage) -> list[str]:
    database = stage.store.database
    customers = {(row["customer_id"], row["visits"]) async for row in database["customers"].find()}
    greetings = sorted([row["customer_id"] async for row in database["greetings"].find()])
    expected = [f"c{number}" for number in range(EVENTS)]
    faults = [] if customers == {(each, 1) for each in expected} else [f"visits {sorted(customers)}"]
    return faults + ([] if greetings == expected else [f"greetings {greetings}"])


async def crash_worker_and_recover(stage: Stage, landmark: str, nth: int) -> Verdict:
    _, promised = await process(stage, "acceptance", "nowhere", 0)
    code, _ = await process(stage, "worker", landmark, nth)
    await stage.start_worker()
    await wait_for_all_ends(stage)
    verdict = await judge_runs(stage, promised, CALLS)
    verdict.wrong += await read_written_back(stage)
    verdict.wrong += [] if code == -9 else [f"the worker ended with {code}"]
    return verdict


async def crash_acceptance_and_recover(stage: Stage, landmark: str, nth: int) -> Verdict:
    code, promised = await process(stage, "acceptance", landmark, nth)
    inserted = {run["_id"] for run in await stage.store.list()}
    await stage.start_worker()
    # Who heard no answer asks again.
    _, repeated = await process(stage, "acceptance", "nowhere", 0)
    await wait_for_all_ends(stage)
    verdict = await judge_runs(stage, repeated, CALLS)
    verdict.wrong += await read_written_back(stage)
    verdict.wrong += [] if code == -9 else [f"the acceptance ended with {code}"]
    verdict.wrong += [f"{run_id} was promised and is not there" for run_id in set(promised) - inserted]
    verdict.wrong += [f"{run_id} was inserted, and its event made another one" for run_id in inserted - set(repeated)]
    expected = nth - 1 if landmark == "accepting" else nth
    verdict.wrong += [] if len(inserted) == expected else [f"{len(inserted)} runs were inserted, not {expected}"]
    return verdict


@pytest.mark.parametrize("nth", NTH)
async def test_a_process_that_dies_at_any_step_leaves_nothing_undone(
    settings: Settings, tmp_path: Path, nth: int
) -> None:
    room = asyncio.Semaphore(AT_ONCE)

    async def died_at(number: int, landmark: CrashPoint) -> Verdict:
        own = replace(
            settings,
            database=f"{settings.database}_{number}",
            queue=f"{settings.queue}_{number}",
            data_dir=tmp_path / str(number),
        )
        async with room, stage_on(own, tmp_path / str(number)) as stage:
            desk(stage)
            dies = crash_acceptance_and_recover if landmark in ACCEPTANCE else crash_worker_and_recover
            verdict = await dies(stage, landmark, nth)
            await stage.store.database.client.drop_database(own.database)
        return verdict

    async with asyncio.TaskGroup() as group:
        dying = [group.create_task(died_at(number, each)) for number, each in enumerate(LANDMARKS)]
    verdicts = [each.result() for each in dying]

    for landmark, verdict in zip(LANDMARKS, verdicts, strict=True):
        add_summary_line(f"died at {landmark!r} for the {nth}. time", **verdict.numbers())
    wrong = {landmark: verdict.wrong for landmark, verdict in zip(LANDMARKS, verdicts, strict=True) if verdict.wrong}
    assert wrong == {}


async def test_a_run_that_a_dead_transaction_locks_holds_up_no_other(stage: Stage) -> None:
    """What a worker leaves that is killed before it can commit what it has written back."""
    runs = stage.store.runs
    locked, free = [(await stage.accept("Relay", wake=False)).run_id for _ in range(2)]
    lost = {"state": "running", "lease": {"owner": "dead", "token": 1, "until": datetime(2020, 1, 1, tzinfo=UTC)}}
    await runs.update_many({"_id": {"$in": [locked, free]}}, {"$set": lost, "$unset": {"lane": ""}})
    reconciler = stage.reconciler()

    async with runs.database.client.start_session() as dead:
        await dead.start_transaction()
        await runs.update_one({"_id": locked}, {"$set": {"turn": 1}}, session=dead)
        began = time.monotonic()
        await reconciler.run_pass()
        took_s = time.monotonic() - began
        states = [(await stage.run(run_id))["state"] for run_id in (locked, free)]
        await dead.abort_transaction()
    await reconciler.run_pass()

    assert states == ["running", "queued"]
    assert took_s < 10
    assert ((await stage.run(locked))["state"], (await stage.run(locked))["turn"]) == ("queued", 0)
