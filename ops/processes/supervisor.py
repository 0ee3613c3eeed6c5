"""The supervisor: starts child processes, restarts dead ones, and stops them all."""

import asyncio
import logging
import signal
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ops.processes.child_process import kill_child_group, start_child, stop_child
from ops.processes.restart_policy import RestartPolicy

logger = logging.getLogger(__name__)

# Time for a role after SIGTERM. A worker gets its own grace, and this much more.
GRACE_S = 10.0
EXTRA_WORKER_GRACE_S = 3.0

PROGRAM = Path(__file__).resolve().parents[2] / "unattended.py"


@dataclass(frozen=True, slots=True)
class Child:
    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] | None = None  # None: the supervisor's own


def role_command(role: str, *arguments: str) -> tuple[str, ...]:
    """Build a role's command; -P keeps Python from importing a `workers/` in the current directory."""
    return (sys.executable, "-P", str(PROGRAM), role, *arguments)


class Supervisor:
    """Keeps child processes running.

    1. A task per child waits for its death, waits the backoff, and starts it again. A child that exits with 0, such as
       a worker that has grown too big, is started again at once.
    2. On `stop` each task ends its child: SIGTERM, a grace, SIGKILL. A child in its backoff is not started again.
    3. If the supervisor is killed, the kernel kills the children: another worker resumes their runs, and roles without
       their servers would be useless.
    """

    def __init__(
        self,
        children: Sequence[Child],
        *,
        log_dir: Path | None = None,
        grace_s: float = GRACE_S,
        policy: RestartPolicy | None = None,
    ) -> None:
        self._children = children
        self._log_dir = log_dir
        self._grace_s = grace_s
        self._policy = policy or RestartPolicy()
        self._processes: dict[str, Process] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        """Start every child once, without waiting until it is ready."""
        for child in self._children:
            process = await self._start_child(child)
            self._tasks.append(asyncio.create_task(self._keep_running(child, process)))

    async def stop(self) -> None:
        """Stop all children; a cancellation, as by a second Ctrl-C, skips the grace."""
        self._stopping.set()
        try:
            await asyncio.gather(*self._tasks)
        finally:
            for process in self._processes.values():
                kill_child_group(process)

    def pids(self) -> dict[str, int]:
        """Return the process ids of living children; a child in its backoff has none."""
        return {name: process.pid for name, process in self._processes.items() if process.returncode is None}

    async def wait_until_stopped(self) -> None:
        """Wait for `stop`; raise if a child cannot be kept running."""
        # Not gather, which would cancel the children's tasks when this wait is cancelled.
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _keep_running(self, child: Child, process: Process | None) -> None:
        deaths = 0
        while True:
            started = time.monotonic()
            if process:
                await self._wait_dead_or_stopping(process)
                await stop_child(process, grace_s=self._grace_s)
            if self._stopping.is_set():
                return
            lived_s = time.monotonic() - started
            code = process.returncode if process else None
            deaths = self._policy.count_deaths(deaths, lived_s, is_intended=code == 0)
            delay_s = self._policy.delay_s(deaths)
            facts = {"child": child.name, "lived_s": round(lived_s, 1), **exit_facts(code)}
            logger.warning("role_died" if deaths else "role_ended", extra=facts)
            logger.info("role_restarting", extra={"child": child.name, "in_s": delay_s})
            if await self._has_stopped_within(delay_s):
                return
            try:
                process = await self._start_child(child)
            except OSError:  # out of memory or process ids: treat it as a death, and try again
                process = None

    async def _start_child(self, child: Child) -> Process:
        log = self._log_dir / f"{child.name}.log" if self._log_dir else None
        process = await start_child(child.argv, death_signal="KILL", output=log, env=child.env)
        self._processes[child.name] = process
        logger.info("role_started", extra={"child": child.name, "pid": process.pid})
        return process

    async def _wait_dead_or_stopping(self, process: Process) -> None:
        either = {asyncio.ensure_future(process.wait()), asyncio.ensure_future(self._stopping.wait())}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiting in either:
                waiting.cancel()

    async def _has_stopped_within(self, delay_s: float) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), delay_s)
        return self._stopping.is_set()


def exit_facts(code: int | None) -> dict[str, Any]:
    if code is None:
        return {"exit_code": None}
    if code >= 0:
        return {"exit_code": code}
    with suppress(ValueError):
        return {"signal": signal.Signals(-code).name}
    return {"signal": -code}
