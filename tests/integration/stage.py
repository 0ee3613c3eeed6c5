"""A stage for worker tests: packages in a folder, real worker processes, and a scheduler's reconciler on call."""

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from ulid import ULID

from ops.processes.supervisor import role_command
from tests.integration.role_forks import FORKS
from tests.quick_yaml import dumped
from workers.broker.publisher import Publisher
from workers.broker.queue_depth import QueueDepth
from workers.broker.wakeups import Wakeups
from workers.celery import celery_config
from workers.reconciler.reconcile_metrics import ReconcileMetrics
from workers.reconciler.reconciler import Reconciler
from workers.setting_values import Address
from workers.settings import Settings, as_environment
from workers.store.run import Accepted, RunRequest, TriggerEvent
from workers.store.run_store import RunStore

Document = dict[str, Any]
ENDED = {"succeeded", "failed", "cancelled", "parked", "needs_human"}


async def wait_until(what: str, condition: Callable[[], Awaitable[Any]], *, within_s: float = 30) -> Any:
    """Polls a named condition; returns its first truthy value."""
    give_up_at = time.monotonic() + within_s
    while not (value := await condition()):
        assert time.monotonic() < give_up_at, f"not within {within_s} s: {what}"
        await asyncio.sleep(0.03)
    return value


def write_package(folder: Path, name: str, files: Mapping[str, Any]) -> Path:
    """`files` maps a stem to its data, and tools/x.py to source text."""
    package = folder / name
    for stem, body in files.items():
        path = package / (stem if stem.endswith(".py") else f"{stem}.yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body if isinstance(body, str) else dumped(body), encoding="utf-8")
    return package


def relay(name: str, agents: list[str], **orchestrator: Any) -> dict[str, Any]:
    """A package in which each agent speaks once, in order."""
    rules = [
        {"source_agent": one, "target_agent": after, "handoff_type": "after_work"}
        for one, after in zip(agents, [*agents[1:], "terminate"], strict=True)
    ]
    return {
        "orchestrator": {"workflow_name": name, "initial_agent": agents[0], **orchestrator},
        "agents": {"agents": [{"name": agent, "system_message": f"You are {agent}."} for agent in agents]},
        "handoffs": {"handoff_rules": rules},
    }


class Stage:
    def __init__(self, settings: Settings, store: RunStore, folder: Path) -> None:
        self.folder = folder
        self.store = store
        (folder / "packages").mkdir(parents=True, exist_ok=True)
        self.settings = replace(
            settings,
            packages=(folder / "packages",),
            models=folder / "models.yaml",
            metrics_listen=Address("127.0.0.1", 0),
            concurrency=64,
            environ=dict(os.environ),
        )
        self.answers({}, default={"text": "ok", "usage": {"input": 10, "output": 2}})
        self.workers: list[Process] = []
        self.app = _app(self.settings)
        self.wakeups = Wakeups(Publisher(self.app))
        self.wakeups.start()

    def package(self, name: str, files: Mapping[str, Any]) -> None:
        write_package(self.folder / "packages", name, files)

    def answers(self, by_agent: Mapping[str, Any], *, default: Any = None) -> None:
        self._write("answers.yaml", {"answers": dict(by_agent), "default": default})
        self.models({"default": {"provider": "script", "file": "answers.yaml"}})

    def models(self, models: Mapping[str, Any]) -> None:
        prices = [{"provider": "*", "model": "*", "input": 1.0, "output": 2.0}]
        self._write("models.yaml", {"models": dict(models), "prices": prices})

    def _write(self, name: str, data: Any) -> None:
        (self.folder / name).write_text(dumped(data), encoding="utf-8")

    async def start_worker(self, **changes: Any) -> Process:
        process = await FORKS.start(
            role_command("worker"),
            env=as_environment(replace(self.settings, **changes)),
            log=self.folder / f"worker-{len(self.workers)}.log",
            folder=self.folder,
        )
        self.workers.append(process)
        await wait_until("the worker is ready", lambda: self._has_logged("worker_ready", len(self.workers) - 1))
        return process

    async def start_altered_worker(self, changes: str, **environment: str) -> Process:
        """As `unattended worker`, but lines of Python come before it: for less patience than a user needs."""
        program = f"{changes}\nimport sys\nfrom ops.cli.main import run\nsys.argv = ['unattended', 'worker']\nrun()\n"
        number = len(self.workers)
        with (self.folder / f"worker-{number}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-c", program),
                env={**as_environment(self.settings), **environment},
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )
        self.workers.append(process)
        await wait_until("the worker is ready", lambda: self._has_logged("worker_ready", number))
        return process

    async def _has_logged(self, event: str, worker: int) -> bool:
        assert self.workers[worker].returncode is None, self.log(worker)
        return event in self.log(worker)

    def log(self, worker: int = 0) -> str:
        return (self.folder / f"worker-{worker}.log").read_text(encoding="utf-8")

    async def accept(self, workflow: str, *, app_id: str = "acme", wake: bool = True, **request: Any) -> Accepted:
        event = TriggerEvent("api", "test", str(ULID()), fired_at=datetime.now(UTC))
        accepted = await self.store.insert(RunRequest(app_id, workflow, event, **request))
        if wake:
            self.wakeups.send(accepted.run_id)
        return accepted

    async def run(self, run_id: str) -> Document:
        document = await self.store.find(run_id)
        assert document is not None
        return document

    async def wait_for_end(self, run_id: str, *, within_s: float = 30) -> Document:
        async def has_ended() -> Document | None:
            document = await self.run(run_id)
            return document if document["state"] in ENDED else None

        try:
            document: Document = await wait_until(f"{run_id} ends", has_ended, within_s=within_s)
        except AssertionError as error:
            logs = "\n".join(self.log(worker)[-4_000:] for worker in range(len(self.workers)))
            raise AssertionError(f"{error}: {await self.run(run_id)}\n{logs}") from None
        return document

    async def wait_for_turn(self, run_id: str, number: int) -> None:
        async def reached() -> bool:
            return bool((await self.run(run_id))["turn"] >= number)

        await wait_until(f"turn {number} of {run_id} is committed", reached)

    async def wait_for_call(self, run_id: str, agent: str) -> None:
        """Waits until a model call of this agent has begun."""

        async def begun() -> bool:
            return agent in {row["agent"] for row in await self.usage_rows(run_id)}

        await wait_until(f"a call of {agent} in {run_id} has begun", begun)

    async def agents_of(self, run_id: str) -> list[str]:
        run = await self.run(run_id)
        return [turn["agent"] for turn in await self.store.committed_turns(run_id, up_to=run["turn"])]

    async def usage_rows(self, run_id: str) -> list[Document]:
        rows: list[Document] = await self.store.database["usage"].find({"run_id": run_id}).sort("at", 1).to_list(None)
        return rows

    def reconciler(self) -> Reconciler:
        return Reconciler(
            self.store,
            self.settings,
            wakeups=self.wakeups,
            tickets=QueueDepth(self.app, self.wakeups),
            metrics=ReconcileMetrics(CollectorRegistry()),
        )

    async def reconcile_until_end(self, run_id: str, *, within_s: float = 30) -> Document:
        """What the scheduler role does beside its ticks, until the run has ended."""
        reconciler = self.reconciler()

        async def has_ended() -> Document | None:
            await reconciler.run_pass()
            document = await self.run(run_id)
            return document if document["state"] in ENDED else None

        try:
            document: Document = await wait_until(f"{run_id} ends", has_ended, within_s=within_s)
        except AssertionError as error:
            logs = "\n".join(self.log(worker)[-4_000:] for worker in range(len(self.workers)))
            raise AssertionError(f"{error}: {await self.run(run_id)}\n{logs}") from None
        return document

    async def close(self) -> None:
        for process in self.workers:
            if process.returncode is None:
                process.send_signal(signal.SIGKILL)
        for process in self.workers:
            await process.wait()
        await self.wakeups.stop()


def _app(settings: Settings) -> Any:
    """An app of the test's own: the product's is one per process, and tests have many brokers."""
    from celery import Celery

    app = Celery("stage", set_as_current=False)
    app.conf.update(celery_config(settings))
    return app
