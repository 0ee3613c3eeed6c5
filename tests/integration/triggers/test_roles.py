"""The scheduler and the watcher as processes: ready, measured, stopped by a signal, and never with ag2 loaded."""

import asyncio
import os
import signal
import sys
import urllib.request
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.integration.triggers.condition_wait import wait_until
from workers.settings import Settings, as_environment
from workers.store.run_filter import RunFilter
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

ROLE = """
import asyncio, logging, sys
from triggers.{role}_role import serve
from workers.settings import load_settings
handler = logging.StreamHandler(sys.stderr)
handler.setFormatter(logging.Formatter("%(message)s %(metrics)s", defaults={{"metrics": ""}}))
logging.basicConfig(level="INFO", handlers=[handler])
asyncio.run(serve(load_settings()))
print(",".join(sorted(name for name in ("ag2", "openai", "autogen") if name in sys.modules)))
"""
PACKAGE = {
    "orchestrator.yaml": "workflow_name: Tick\ninitial_agent: Writer\n",
    "agents.yaml": "agents:\n  - name: Writer\n    system_message: Write.\n",
    "triggers.yaml": """
triggers:
  - {name: fast, type: schedule, every: 1s, overlap: allow, apps: [acme]}
  - {name: order, type: database_condition, database: "%s", collection: orders, apps: [acme]}
""",
}


@pytest.fixture
def packages(settings: Settings, tmp_path: Path) -> Path:
    folder = tmp_path / "packages" / "Tick"
    folder.mkdir(parents=True)
    for name, text in PACKAGE.items():
        (folder / name).write_text(text.replace("%s", settings.database))
    return folder.parent


@asynccontextmanager
async def running_role(role: str, settings: Settings, packages: Path) -> AsyncIterator[tuple[Process, str]]:
    """Returns the process and the address of its metrics, once it is ready."""
    variables = {
        **os.environ,
        **as_environment(settings),
        "UNATTENDED_PACKAGES": str(packages),
        "UNATTENDED_METRICS_LISTEN": "127.0.0.1:0",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ROLE.format(role=role), env=variables, stdout=PIPE, stderr=PIPE
    )
    assert process.stderr is not None
    try:
        said = []
        ready = {"schedule.scheduler": "scheduler_ready", "change_stream.watcher": "watcher_ready"}[role]
        async with asyncio.timeout(30):
            while line := (await process.stderr.readline()).decode():
                said.append(line)
                if line.startswith(ready):
                    break
        assert said, "the role said nothing"
        assert said[-1].startswith(ready), "".join(said)
        yield process, said[-1].split()[1]
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def stop_process(process: Process) -> str:
    process.send_signal(signal.SIGTERM)
    output, said = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 0, said.decode()
    return output.decode().strip()


async def scrape(address: str, path: str = "/metrics") -> str:
    """HTTPError unless it answers 200."""

    def read() -> bytes:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
            return bytes(answer.read())

    return (await asyncio.to_thread(read)).decode()


async def test_the_scheduler_fires_measures_and_stops_on_sigterm(
    settings: Settings, packages: Path, store: RunStore
) -> None:
    async with running_role("schedule.scheduler", settings, packages) as (process, address):

        async def has_fired() -> bool:
            return len(await store.list(RunFilter(workflow="Tick"))) >= 2

        await wait_until(has_fired, "two ticks")
        text = await scrape(address)
        probed = [await scrape(address, path) for path in ("/healthz", "/readyz")]
        loaded = await stop_process(process)

    assert loaded == ""
    assert probed == ['{"status": "ok"}\n'] * 2
    assert 'unattended_schedule_next_fire_timestamp_seconds{trigger="Tick/fast"}' in text
    assert "unattended_republished_total" in text
    nominal = [run["trigger"]["nominal_at"] for run in await store.list()]
    assert len(set(nominal)) == len(nominal)


async def test_the_watcher_delivers_measures_and_stops_on_sigterm(
    settings: Settings, packages: Path, store: RunStore
) -> None:
    async with running_role("change_stream.watcher", settings, packages) as (process, address):

        async def is_delivered() -> bool:
            await store.database["orders"].insert_one({})
            return bool(await store.list(RunFilter(workflow="Tick")))

        await wait_until(is_delivered, "a run for an inserted document")
        text = await scrape(address)
        probed = [await scrape(address, path) for path in ("/healthz", "/readyz")]
        loaded = await stop_process(process)

    assert loaded == ""
    assert probed == ['{"status": "ok"}\n'] * 2
    assert f'unattended_stream_state{{stream="{settings.database}"}} 1.0' in text
    stream = await store.database["streams"].find_one({"_id": settings.database})
    assert stream is not None
    assert stream["lease"]["owner"] is None
