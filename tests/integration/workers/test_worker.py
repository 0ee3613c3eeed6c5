"""A real Celery worker process on real Redis and MongoDB."""

import asyncio
import contextlib
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from ops.processes.supervisor import role_command
from tests.integration.stage import Stage, relay, wait_until
from workers.settings import as_environment

pytestmark = pytest.mark.integration

SLOW_TOOL = """
import asyncio
from pathlib import Path

async def work(context_variables=None):
    Path("started").touch()
    while not Path("go").exists():
        await asyncio.sleep(0.02)
    context_variables.set("worked", True)
    return "done"
"""


@pytest.mark.design("U-6", "D4-75")
async def test_a_run_goes_through_its_agents_and_is_accounted(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A", "B", "C"]))
    usage = {"input": 100, "cached_input": 40, "output": 10, "reasoning": 4}
    stage.answers({agent: [{"text": f"I am {agent}", "usage": usage}] for agent in "ABC"})
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Relay")).run_id)

    assert (run["state"], run["outcome"]["kind"], run["turn"]) == ("succeeded", "completed", 3)
    assert await stage.agents_of(run["_id"]) == ["A", "B", "C"]
    assert run["package_version"]
    assert {key: run["usage"][key] for key in ("calls", "input_tokens", "output_tokens", "cost_usd", "missing")} == {
        "calls": 3,
        "input_tokens": 300,
        "output_tokens": 30,
        "cost_usd": pytest.approx(3 * (60 + 40 + 2 * 10) / 1e6),
        "missing": 0,
    }
    rows = await stage.usage_rows(run["_id"])
    assert [row["_id"] for row in rows] == [f"{run['_id']}:1:{call}" for call in (1, 2, 3)]
    assert {(row["app_id"], row["workflow"], row["provider"], row["status"]) for row in rows} == {
        ("acme", "Relay", "script", "reported")
    }


async def test_repeated_wakeups_start_nothing_more(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A"]))
    await stage.start_worker()
    run_id = (await stage.accept("Relay")).run_id

    for _ in range(20):
        stage.wakeups.send(run_id)
    await stage.wait_for_end(run_id)
    for _ in range(5):
        stage.wakeups.send(run_id)
    after = await stage.accept("Relay")  # the queue is ordered: after this run the repeats were handled
    await stage.wait_for_end(after.run_id)

    assert len(await stage.usage_rows(run_id)) == 1
    assert (await stage.run(run_id))["lease"]["token"] == 1


async def test_one_process_holds_many_chats_at_once(stage: Stage) -> None:
    """60 chats that each wait for a second take little more than a second."""
    stage.package("Relay", relay("Relay", ["A"]))
    stage.answers({"A": [{"text": "ok", "delay_s": 1.0}]})
    await stage.start_worker()

    accepted = [await stage.accept("Relay") for _ in range(60)]
    runs = [await stage.wait_for_end(each.run_id) for each in accepted]

    overlapping = max(run["started_at"] for run in runs) < min(run["finished_at"] for run in runs)
    assert overlapping
    assert {run["state"] for run in runs} == {"succeeded"}


async def test_a_full_worker_takes_the_next_run_as_soon_as_one_has_ended(stage: Stage) -> None:
    """Without the pipe Celery would continue at a timer: two runs every ten seconds."""
    stage.package("Relay", relay("Relay", ["A"]))
    await stage.start_worker(concurrency=2)

    accepted = [await stage.accept("Relay") for _ in range(30)]
    runs = [await stage.wait_for_end(each.run_id, within_s=10) for each in accepted]

    assert {run["state"] for run in runs} == {"succeeded"}


async def test_a_transient_model_error_is_retried_and_each_call_is_in_the_ledger(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A", "B"]))
    stage.answers({"A": [{"text": "one"}], "B": [{"error": {"status": 429, "retry_after_s": 0.1}}, {"text": "two"}]})
    await stage.start_worker()

    run = await stage.reconcile_until_end((await stage.accept("Relay")).run_id)

    assert (run["state"], run["attempt"]) == ("succeeded", 2)
    rows = await stage.usage_rows(run["_id"])
    assert [(row["agent"], row["ok"], row["status"]) for row in rows] == [
        ("A", True, "missing"),
        ("B", False, "missing"),
        ("B", True, "missing"),
    ]
    assert len({row["_id"] for row in rows}) == 3


async def test_a_model_that_stays_down_parks_the_run_after_its_attempts(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A"]))
    stage.answers({}, default={"error": {"status": 503}})
    await stage.start_worker(max_attempts=2)

    run = await stage.reconcile_until_end((await stage.accept("Relay")).run_id)

    assert (run["state"], run["outcome"]["kind"], run["attempt"]) == ("parked", "model_error", 2)


@pytest.mark.parametrize(
    ("workflow", "kind"), [("Relay", "model_error"), ("Nowhere", "package_error"), ("Broken", "package_error")]
)
async def test_an_impossible_run_fails_at_once_with_its_reason(stage: Stage, workflow: str, kind: str) -> None:
    stage.package("Relay", relay("Relay", ["A"]))
    broken = relay("Broken", ["A"])
    broken["tools"] = {"tools": [{"agent": "A", "file": "boom.py", "function": "boom"}]}
    broken["tools/boom.py"] = "import sys\nsys.exit(3)\n\ndef boom():\n    return 1\n"
    stage.package("Broken", broken)
    stage.answers({"A": [{"error": {"status": 400}}]})
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept(workflow)).run_id)

    assert (run["state"], run["outcome"]["kind"]) == ("failed", kind)
    assert run["outcome"]["reason"]
    assert "Traceback" not in run["outcome"]["reason"]


@pytest.mark.design("D4-89")
async def test_a_stopping_worker_hands_its_run_back_and_another_goes_on(stage: Stage) -> None:
    package = relay("Relay", ["A", "B"])
    package["tools"] = {"tools": [{"agent": "A", "file": "work.py", "function": "work"}]}
    package["tools/work.py"] = SLOW_TOOL
    package["context_variables"] = {"definitions": {"worked": {"type": "boolean", "source": {"type": "state"}}}}
    stage.package("Relay", package)
    stage.answers({"A": [{"tool_calls": [{"name": "work"}]}, {"text": "worked"}], "B": [{"text": "bye"}]})
    first = await stage.start_worker()
    run_id = (await stage.accept("Relay")).run_id
    await wait_until("the tool runs", lambda: _exists(stage.folder / "started"))

    first.send_signal(signal.SIGTERM)
    await wait_until("the worker is stopping", lambda: stage._has_logged("shutdown", 0))
    (stage.folder / "go").touch()
    assert await asyncio.wait_for(first.wait(), 15) == 0
    handed_back = await stage.run(run_id)
    await stage.start_worker()
    run = await stage.reconcile_until_end(run_id)

    assert (handed_back["state"], handed_back["turn"], handed_back["next_agent"]) == ("queued", 1, "B")
    assert (run["state"], run["attempt"], run["worker_losses"]) == ("succeeded", 1, 0)
    assert run["context"]["worked"] is True
    assert [row["agent"] for row in await stage.usage_rows(run_id)] == ["A", "A", "B"]


async def test_a_turn_that_outlasts_the_grace_is_cut_off_and_its_run_handed_back(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A", "B"]))
    stage.answers({"A": [{"text": "one"}], "B": [{"text": "two", "delay_s": 60}]})
    first = await stage.start_worker(grace_s=1)
    run_id = (await stage.accept("Relay")).run_id
    await stage.wait_for_call(run_id, "B")  # a busy machine may take the whole grace to begin it

    first.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(first.wait(), 10) == 0

    run = await stage.run(run_id)
    assert (run["state"], run["turn"], run["next_agent"]) == ("queued", 1, "B")
    assert (run["attempt"], run["worker_losses"]) == (1, 0)
    # The interrupted call has a row, which does not count as an answer.
    rows = await stage.usage_rows(run_id)
    assert [(row["agent"], row["ok"], row["error"]) for row in rows] == [("A", True, None), ("B", False, "Cancelled")]


@pytest.mark.parametrize("after_s", [0.5, 2.0])
async def test_a_worker_stopped_while_it_starts_stops(stage: Stage, after_s: float) -> None:
    """The signal arrives while it waits for a missing MongoDB, under the start lock."""
    nowhere = replace(stage.settings, mongodb_url="mongodb://127.0.0.1:1/?replicaSet=rs0")
    process = await asyncio.create_subprocess_exec(
        *role_command("worker"), env=as_environment(nowhere), stderr=asyncio.subprocess.DEVNULL
    )

    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), after_s)
    process.send_signal(signal.SIGTERM)

    await asyncio.wait_for(process.wait(), 20)


@pytest.mark.design("D4-93")
async def test_an_edited_package_is_used_by_the_next_run(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A"]))
    await stage.start_worker()
    before = await stage.wait_for_end((await stage.accept("Relay")).run_id)

    stage.package("Relay", relay("Relay", ["A", "B"]))

    async def uses_the_edit() -> bool:
        run = await stage.wait_for_end((await stage.accept("Relay")).run_id)
        return bool(run["turn"] == 2 and run["package_version"] != before["package_version"])

    await wait_until("a run uses the edited package", uses_the_edit, within_s=5)


async def _exists(path: Path) -> bool:
    return path.exists()  # noqa: ASYNC240 -- a file of the test's own
