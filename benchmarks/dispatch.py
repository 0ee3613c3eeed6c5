"""Runs per second from acceptance to the durable end, one worker process, against bare Celery on the same Redis.

    .venv/bin/python benchmarks/dispatch.py [RUNS]

A run is one turn of one agent with a canned answer: insert, wake-up, claim, package, ledger row, turn,
outcome. The baseline is a Celery task that does one INCR, with acks_late and nothing durable.
"""

import asyncio
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil
import yaml
from redis.asyncio import Redis

from ops.embedded.servers import embedded_servers
from ops.supervisor import role_command
from workers.celery import configure
from workers.run import RunRequest, TriggerEvent
from workers.run_store import RunStore, connect
from workers.services import Services
from workers.settings import Address, Settings, as_environment
from workers.wakeups import Wakeups, celery_publisher

HERE = Path(__file__).resolve().parent
CONCURRENCY = 50
PACKAGE = {
    "orchestrator": {"workflow_name": "Empty", "initial_agent": "Only"},
    "agents": {"agents": [{"name": "Only", "system_message": "Say ok."}]},
}


@dataclass(frozen=True)
class Result:
    per_second: float
    cpu_ms: float
    rss_mb: float


async def bare(services: Services, count: int) -> Result:
    os.environ["BARE_BROKER"] = services.redis_url or ""
    sys.path.insert(0, str(HERE))
    from bare_celery import count as task

    redis = Redis.from_url(services.redis_url or "")
    command = [sys.executable, "-m", "celery", "--quiet", "-A", "bare_celery", "worker", "-P", "threads"]
    worker = await asyncio.create_subprocess_exec(*command, "-c", str(CONCURRENCY), "-l", "ERROR", cwd=HERE)
    try:
        task.delay()
        while int(await redis.get("bare:done") or 0) < 1:
            await asyncio.sleep(0.01)
        began, cpu = time.perf_counter(), cpu_s(worker.pid)
        await asyncio.to_thread(lambda: [task.delay() for _ in range(count)])
        while int(await redis.get("bare:done") or 0) < count + 1:
            await asyncio.sleep(0.01)
        return measured(worker.pid, count, began, cpu)
    finally:
        worker.terminate()
        await worker.wait()
        await redis.aclose()


async def unattended(services: Services, folder: Path, count: int) -> Result:
    settings = prepare(services, folder)
    database = connect(settings.mongodb_url or "", database=settings.database)
    store = RunStore(database)
    await store.ensure_indexes()
    wakeups = Wakeups(celery_publisher(configure(settings)))
    wakeups.start()
    worker = await asyncio.create_subprocess_exec(*role_command("worker"), env=as_environment(settings))

    async def accept(number: int) -> None:
        event = TriggerEvent("api", "benchmark", str(number), fired_at=datetime.now(UTC))
        wakeups.send((await store.insert(RunRequest("acme", "Empty", event))).run_id)

    async def ended(wanted: int) -> None:
        while await store.runs.count_documents({"state": "succeeded"}) < wanted:
            await asyncio.sleep(0.01)

    try:
        await accept(-1)
        await ended(1)
        began, cpu = time.perf_counter(), cpu_s(worker.pid)
        for start in range(0, count, 100):
            await asyncio.gather(*(accept(number) for number in range(start, min(start + 100, count))))
        await ended(count + 1)
        return measured(worker.pid, count, began, cpu)
    finally:
        worker.terminate()
        await worker.wait()
        await wakeups.stop()
        await database.client.close()


def prepare(services: Services, folder: Path) -> Settings:
    package = folder / "packages" / "Empty"
    package.mkdir(parents=True)
    for stem, body in PACKAGE.items():
        (package / f"{stem}.yaml").write_text(yaml.safe_dump(body))
    (folder / "answers.yaml").write_text("default: {text: ok, usage: {input: 10, output: 1}}\n")
    (folder / "models.yaml").write_text("models: {default: {provider: script, file: answers.yaml}}\n")
    return services.fill(
        Settings(
            packages=(folder / "packages",),
            models=folder / "models.yaml",
            concurrency=CONCURRENCY,
            metrics_listen=Address("127.0.0.1", 0),
            log_level="warning",
            environ=dict(os.environ),
        )
    )


def cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def measured(pid: int, count: int, began: float, cpu: float) -> Result:
    seconds = time.perf_counter() - began
    rss_mb = psutil.Process(pid).memory_info().rss / 1e6
    return Result(count / seconds, (cpu_s(pid) - cpu) / count * 1000, rss_mb)


async def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as name:
        async with embedded_servers(Path(name) / "data") as services:
            baseline = await bare(services, count)
            ours = await unattended(services, Path(name), count)
    for label, result in (("bare Celery", baseline), ("unattended", ours)):
        print(f"{label:<12} {result.per_second:8.0f}/s  {result.cpu_ms:6.2f} ms CPU each  {result.rss_mb:5.0f} MB")
    print(f"ratio        {ours.per_second / baseline.per_second:8.2f} of bare Celery, {count} runs, every step durable")


if __name__ == "__main__":
    asyncio.run(main())
