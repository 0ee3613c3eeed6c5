"""Runs per second from acceptance to the durable end, one worker process, against bare Celery on the same Redis.

    .venv/bin/python benchmarks/dispatch.py [--runs 1500] [--waiting 1000] [--repeat 3]

Two scenarios. `empty`: a chat that is answered at once, as fast as it goes. `waiting`: so many chats at once that each
wait two seconds for their model, three times over. A run is one turn of one agent with a canned answer: insert,
wake-up, claim, package, ledger row, turn, outcome, each durable. The baseline is a Celery task with acks_late that
sleeps as long and then does one INCR, with nothing durable. The best of the repeats counts; CPU is the worker's.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

# This folder comes last: `accounting` and `triggers` are the packages, not files of it.
sys.path.sort(key=lambda place: Path(place).resolve() == Path(__file__).resolve().parent)

import psutil
import yaml
from redis.asyncio import Redis
from ulid import ULID

from ops.embedded.embedded_servers import embedded_servers
from ops.processes.supervisor import role_command
from workers.broker.publisher import Publisher
from workers.broker.wakeups import Wakeups
from workers.celery import configure
from workers.embedded_services import Services
from workers.setting_values import Address
from workers.settings import Settings, as_environment
from workers.store.run import RunRequest, TriggerEvent
from workers.store.run_store import RunStore, connect

HERE = Path(__file__).resolve().parent
TARGET_RATIO = 0.4
WAIT_S = 2.0
PATIENCE_S = 60
PACKAGE = {
    "orchestrator": {"workflow_name": "Empty", "initial_agent": "Only"},
    "agents": {"agents": [{"name": "Only", "system_message": "Say ok."}]},
}


@dataclass(frozen=True)
class Scenario:
    name: str
    runs: int
    slots: int
    wait_s: float


@dataclass(frozen=True)
class Result:
    per_second: float
    cpu_ms: float
    rss_mb: float


async def bare(services: Services, scenario: Scenario) -> Result:
    os.environ["BARE_BROKER"] = services.redis_url or ""
    from bare_celery import count as task

    redis = Redis.from_url(services.redis_url or "")
    await redis.delete("bare:done")
    command = [sys.executable, "-m", "celery", "--quiet", "-A", "bare_celery", "worker", "-P", "threads"]
    worker = await asyncio.create_subprocess_exec(
        *command, "-c", str(scenario.slots), "-l", "ERROR", cwd=HERE, stderr=asyncio.subprocess.DEVNULL
    )

    async def send(count: int) -> None:
        await asyncio.to_thread(lambda: [task.delay(scenario.wait_s) for _ in range(count)])

    async def done() -> int:
        return int(await redis.get("bare:done") or 0)

    try:
        return await measure(worker, scenario, send, done)
    finally:
        await redis.aclose()


async def unattended(services: Services, folder: Path, scenario: Scenario) -> Result:
    settings = prepare(services, folder, scenario)
    database = connect(settings.mongodb_url or "", database=settings.database)
    store = RunStore(database)
    await store.ensure_indexes()
    wakeups = Wakeups(Publisher(configure(settings)))
    wakeups.start()
    worker = await asyncio.create_subprocess_exec(*role_command("worker"), env=as_environment(settings))

    async def accept() -> None:
        event = TriggerEvent("api", "benchmark", str(ULID()), fired_at=datetime.now(UTC))
        wakeups.send((await store.insert(RunRequest("acme", "Empty", event))).run_id)

    async def send(count: int) -> None:
        for start in range(0, count, 100):
            await asyncio.gather(*(accept() for _ in range(start, min(start + 100, count))))

    async def done() -> int:
        # By the index of what has ended: else asking so often would cost the store more than the runs do.
        ended = {"state": "succeeded", "finished_at": {"$type": "date"}}
        return int(await store.runs.count_documents(ended, hint="by_end"))

    try:
        return await measure(worker, scenario, send, done)
    finally:
        await wakeups.stop()
        await database.client.close()


async def measure(
    worker: Process,
    scenario: Scenario,
    send: Callable[[int], Awaitable[None]],
    done: Callable[[], Awaitable[int]],
) -> Result:
    async def until(wanted: int) -> int:
        give_up_at = time.monotonic() + PATIENCE_S
        while (reached := await done()) < wanted and time.monotonic() < give_up_at:
            await asyncio.sleep(0.02)
        if reached < wanted:
            print(f"{scenario.name}: {reached} of {wanted} were done after {PATIENCE_S} s; so many count")
        return reached

    try:
        await send(1)  # warm: the first one waits for imports and connections
        await until(1)
        began, cpu = time.perf_counter(), cpu_s(worker.pid)
        await send(scenario.runs)
        runs = await until(scenario.runs + 1) - 1
        seconds, rss = time.perf_counter() - began, psutil.Process(worker.pid).memory_info().rss
        return Result(runs / seconds, (cpu_s(worker.pid) - cpu) / runs * 1000, rss / 1e6)
    finally:
        worker.terminate()
        await worker.wait()


def prepare(services: Services, folder: Path, scenario: Scenario) -> Settings:
    package = folder / "packages" / "Empty"
    package.mkdir(parents=True)
    for stem, body in PACKAGE.items():
        (package / f"{stem}.yaml").write_text(yaml.safe_dump(body))
    answer = {"text": "ok", "usage": {"input": 10, "output": 1}, "delay_s": scenario.wait_s}
    (folder / "answers.yaml").write_text(yaml.safe_dump({"default": answer}))
    (folder / "models.yaml").write_text("models: {default: {provider: script, file: answers.yaml}}\n")
    return services.fill(
        Settings(
            database=f"bench_{ULID()}".lower(),
            queue="bench",  # the same for all: an app reads its configuration once
            packages=(folder / "packages",),
            models=folder / "models.yaml",
            concurrency=scenario.slots,
            metrics_listen=Address("127.0.0.1", 0),
            log_level="warning",
            environ=dict(os.environ),
        )
    )


def cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


async def best_result(results: AsyncIterator[Result]) -> Result:
    return max([result async for result in results], key=lambda each: each.per_second)


async def compare(services: Services, root: Path, scenario: Scenario, repeat: int) -> None:
    async def baselines() -> AsyncIterator[Result]:
        for _ in range(repeat):
            yield await bare(services, scenario)

    async def ours() -> AsyncIterator[Result]:
        for number in range(repeat):
            yield await unattended(services, root / f"{scenario.name}-{number}", scenario)

    baseline = await best_result(baselines())
    result = await best_result(ours())
    for label, each in (("bare Celery", baseline), ("unattended", result)):
        print(f"{scenario.name:<9}{label:<13}{each.per_second:8.0f}{each.cpu_ms:12.2f}{each.rss_mb:7.0f}")
    ratio = result.per_second / baseline.per_second
    print(f"{scenario.name:<9}{'ratio':<13}{ratio:8.2f}  of bare Celery, every step durable (aim {TARGET_RATIO})")


async def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1500)
    parser.add_argument("--waiting", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print(f"{'':<22}{'runs/s':>8}{'CPU ms/run':>12}{'MB':>7}")
    with tempfile.TemporaryDirectory() as name:
        async with embedded_servers(Path(name) / "data") as services:
            for scenario in (
                Scenario("empty", options.runs, 50, 0.0),
                Scenario("waiting", options.waiting * 3, options.waiting, WAIT_S),
            ):
                await compare(services, Path(name), scenario, options.repeat)


if __name__ == "__main__":
    asyncio.run(main())
