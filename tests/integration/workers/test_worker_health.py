"""Worker health: whether it consumes, and not only that it runs."""

import asyncio
import contextlib
import json
import re
import signal
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ops.embedded.embedded_servers import embedded_servers
from ops.free_ports import find_free_address
from ops.processes.supervisor import role_command
from tests.integration.stage import Stage, relay, wait_until
from workers.settings import Settings, as_environment
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

Answer = tuple[int, dict[str, Any]]


def address_of(stage: Stage, worker: int = 0) -> str:
    found = re.search(r"metrics_listening.*?(127\.0\.0\.1:\d+)", stage.log(worker))
    assert found, stage.log(worker)
    return found[1]


async def fetch(address: str, path: str) -> tuple[int, str]:
    def read() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await asyncio.to_thread(read)


async def probe(address: str, path: str) -> Answer:
    status, text = await fetch(address, path)
    return status, json.loads(text)


def status_probe(address: str, path: str, status: int) -> Callable[[], Any]:
    async def ask() -> Answer | None:
        said = await probe(address, path)
        return said if said[0] == status else None

    return ask


@contextlib.contextmanager
def frozen_process(stage: Stage, name: str) -> Iterator[None]:
    """A private server that keeps its connections and no longer answers."""
    for each in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if name in each.name() and any(str(stage.folder) in word for word in (*each.cmdline(), each.cwd())):
                each.send_signal(signal.SIGSTOP)
                try:
                    yield
                finally:
                    each.send_signal(signal.SIGCONT)
                return
    raise AssertionError(f"no {name} of this test's own")


@pytest.fixture
async def own_redis_stage(settings: Settings, store: RunStore, tmp_path: Path) -> AsyncIterator[Stage]:
    async with embedded_servers(tmp_path / "redis", mongodb=False) as services:
        stage = Stage(replace(settings, redis_url=services.redis_url), store, tmp_path)
        try:
            yield stage
        finally:
            await stage.close()


async def test_a_frozen_broker_makes_a_worker_unready_and_not_dead(own_redis_stage: Stage) -> None:
    stage = own_redis_stage
    stage.package("Relay", relay("Relay", ["A"]))
    worker = await stage.start_worker()
    address = address_of(stage)
    await wait_until("it is ready", status_probe(address, "/readyz", 200))
    assert await probe(address, "/healthz") == (200, {"status": "ok"})

    with frozen_process(stage, "valkey"):
        unready = await wait_until("it is not ready", status_probe(address, "/readyz", 503), within_s=30)
        alive = await probe(address, "/healthz")
    await wait_until("it is ready again", status_probe(address, "/readyz", 200), within_s=30)
    run = await stage.wait_for_end((await stage.accept("Relay")).run_id)

    assert any("broker" in problem for problem in unready[1]["problems"])
    assert alive[0] == 200
    assert (run["state"], worker.returncode) == ("succeeded", None)


async def test_a_worker_without_its_broker_lives_and_is_not_ready(stage: Stage) -> None:
    log = (stage.folder / "worker-0.log").open("ab")
    nowhere = replace(stage.settings, redis_url=f"redis://{find_free_address()}/0")
    process = await asyncio.create_subprocess_exec(
        *role_command("worker"), env=as_environment(nowhere), stdout=log, stderr=log, cwd=stage.folder
    )
    log.close()
    stage.workers.append(process)
    await wait_until("it listens", lambda: stage._has_logged("metrics_listening", 0))

    address = address_of(stage)

    assert (await probe(address, "/healthz"))[0] == 200
    assert await probe(address, "/readyz") == (503, {"status": "failing", "problems": ["the worker is starting"]})


# A signal stops the thread of the consumer for good.
STOPPABLE = """
import signal, threading
from workers.celery import settings_loader
from workers.worker_timings import ConsumerTimings, WorkerTimings
impatient = ConsumerTimings(tick_s=0.2, tick_patience_s=1, probe_interval_s=0.2, dead_after_s=1)
settings_loader().timings = WorkerTimings(consumer=impatient)
signal.signal(signal.SIGUSR2, lambda *_: threading.Event().wait())
"""
WATCHFUL = """
from workers.celery import settings_loader
from workers.worker_timings import WorkerTimings
settings_loader().timings = WorkerTimings(stuck_leases=1, min_stuck_s=3)
"""
# Once: the next worker finds the file.
BLOCKING = """
import time
from pathlib import Path

async def work():
    if not Path("blocked").exists():
        Path("blocked").touch()
        time.sleep(600)
    return "done"
"""


async def test_a_dead_consumer_ends_the_process_though_the_broker_answers(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A", "B"]))
    stage.answers({"A": [{"text": "one"}], "B": [{"text": "two", "delay_s": 1}]})
    process = await stage.start_altered_worker(STOPPABLE)
    run_id = (await stage.accept("Relay")).run_id
    await stage.wait_for_turn(run_id, 1)

    process.send_signal(signal.SIGUSR2)

    assert await asyncio.wait_for(process.wait(), 20) == 70
    run = await stage.run(run_id)
    assert "consumer_dead" in stage.log()
    assert (run["state"], run["worker_losses"]) in {("queued", 0), ("succeeded", 0)}


async def test_a_tool_that_blocks_the_event_loop_for_ever_ends_the_process(stage: Stage) -> None:
    """The heartbeat alone would renew its lease for ever."""
    package = relay("Blocking", ["A", "B"])
    package["tools"] = {"tools": [{"agent": "B", "file": "work.py", "function": "work"}]}
    package["tools/work.py"] = BLOCKING
    stage.package("Blocking", package)
    stage.answers({"A": [{"text": "one"}], "B": [{"tool_calls": [{"name": "work"}]}, {"text": "two"}]})
    process = await stage.start_altered_worker(WATCHFUL)
    run_id = (await stage.accept("Blocking")).run_id

    assert await asyncio.wait_for(process.wait(), 30) == 70
    assert "event_loop_stuck" in stage.log()
    await stage.start_worker()
    run = await stage.reconcile_until_end(run_id)

    assert (run["state"], run["turn"]) == ("succeeded", 2)
    assert [line["ended"] for line in run["history"]] == ["worker_lost", "succeeded"]


@pytest.mark.design("D4-102", "D4-105")
async def test_its_metrics_are_valid_and_count_what_its_runs_did(stage: Stage) -> None:
    package = relay("Relay", ["A", "B"])
    package["tools"] = {
        "tools": [{"agent": "A", "file": "work.py", "function": name} for name in ("double", "boom")],
    }
    package["tools/work.py"] = (
        "def double(number: int):\n    return number * 2\n\ndef boom():\n    raise ValueError('no')\n"
    )
    stage.package("Relay", package)
    calls = [
        {"name": "double", "arguments": {"number": 2}},
        {"name": "double", "arguments": {"number": "many"}},
        {"name": "boom"},
        {"name": "made_up"},
    ]
    busy = {"error": {"status": 429, "retry_after_s": 0.1}}
    stage.answers({"A": [{"tool_calls": calls}, {"text": "ok"}], "B": [busy, {"text": "ok"}]})
    await stage.start_worker()
    run = await stage.reconcile_until_end((await stage.accept("Relay")).run_id)
    await stage.wait_for_end((await stage.accept("Nowhere")).run_id)

    _, text = await fetch(address_of(stage), "/metrics")
    values = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }

    assert (run["state"], run["attempt"]) == ("succeeded", 2)
    assert run["failed_tools"] == 1  # a call that was refused for its arguments does not count
    assert values["unattended_tool_call_seconds_count", "Relay", "double"] == 2
    assert values["unattended_tool_errors_total", "Relay", "double"] == 1
    assert values["unattended_tool_call_seconds_count", "Relay", "boom"] == 1
    assert values["unattended_tool_errors_total", "Relay", "boom"] == 1
    assert (values["unattended_turns_total", "A", "Relay"], values["unattended_turns_total", "B", "Relay"]) == (1, 1)
    assert values["unattended_handoffs_total", "A", "B", "Relay"] == 1
    assert values["unattended_handoffs_total", "B", "Relay", "terminate"] == 1
    assert values["unattended_run_retries_total", "Relay", "model_error"] == 1
    assert values["unattended_run_queue_seconds_count", "api"] == 2
    assert values[("unattended_run_wait_seconds_count",)] == 2
    assert values["unattended_run_duration_seconds_count", "Relay"] == 1
    assert values["unattended_run_duration_seconds_count", "_other"] == 1
    assert values[("unattended_worker_slots",)] == 64
    assert values[("unattended_fenced_writes_total",)] == 0
    assert "made_up" not in text
    assert "Nowhere" not in text
