"""A squad: role processes that somebody keeps running, as an operator's supervisor does, and that a test may hurt."""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ops.processes.supervisor import role_command
from tests.integration.role_forks import FORKS
from tests.integration.stage import Stage, wait_until
from workers.settings import as_environment

RESTART_AFTER_S = 0.2


class Member:
    """One process at a time, always started again, until `stop`."""

    def __init__(self, argv: Sequence[str], *, log: Path, env: Mapping[str, str]) -> None:
        self._argv = argv
        self._log = log
        self._env = env
        self._process: Process | None = None
        self._task: asyncio.Task[None] | None = None
        self.starts = 0

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_running())

    async def _keep_running(self) -> None:
        while True:
            self._process = await FORKS.start(self._argv, env=self._env, log=self._log, folder=self._log.parent)
            self.starts += 1
            await self._process.wait()
            await asyncio.sleep(RESTART_AFTER_S)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    def log_text(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""

    def send(self, sign: signal.Signals) -> bool:
        """Whether there was somebody to send it to."""
        if self._process is None or self._process.returncode is not None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, sign)
        return True

    async def pause(self, seconds: float) -> None:
        """It stands still for so long, unless it is killed meanwhile."""
        process = self._process
        self.send(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        if process is self._process:
            self.send(signal.SIGCONT)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.send(signal.SIGKILL)
        if self._process is not None:
            await self._process.wait()


class Squad:
    def __init__(self, workers: Sequence[Member], schedulers: Sequence[Member]) -> None:
        self.workers = workers
        self.schedulers = schedulers

    def count_events(self, event: str) -> int:
        """How often the members together have logged it."""
        return sum(member.log_text().count(event) for member in (*self.workers, *self.schedulers))


@contextlib.asynccontextmanager
async def squad(stage: Stage, *, workers: int, schedulers: int, **settings: Any) -> AsyncIterator[Squad]:
    env = as_environment(replace(stage.settings, **settings))

    def member(role: str, number: int) -> Member:
        return Member(role_command(role), log=stage.folder / f"{role}-{number}.squad.log", env=env)

    members = Squad(
        [member("worker", number) for number in range(workers)],
        [member("scheduler", number) for number in range(schedulers)],
    )
    everybody = (*members.workers, *members.schedulers)
    try:
        for each in everybody:
            each.start()
        await wait_until("all roles are ready", lambda: _are_all_ready(members), within_s=60)
        yield members
    finally:
        await asyncio.gather(*(each.stop() for each in everybody))


async def _are_all_ready(members: Squad) -> bool:
    return all("worker_ready" in each.log_text() for each in members.workers) and all(
        "scheduler_ready" in each.log_text() for each in members.schedulers
    )
