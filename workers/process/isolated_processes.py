"""Isolated runs: each suspect of killing its workers runs in a process of its own, next to this worker.

1. `lanes` claims a suspect only if a slot is reserved here, under an owner name of its own.
2. A server process (`workers.isolated_run`), started for the first suspect, forks the process that serves the run.
   Until that process has begun, this worker renews the lease.
3. The process ends with its run. If it ends without giving the run up, the loss is charged to that run at once: no
   other run was in the process, and the lease need not expire.
4. If the process ends before any code of the package ran, the run is not charged: it is handed back.
5. A worker that stops passes the signal on. If it dies, its processes finish their runs. Otherwise a steady stream of
   other killers in the worker would stop suspects from ever finishing.
"""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pymongo.errors import PyMongoError

from workers.process.worker_metrics import WorkerMetrics
from workers.settings import Settings, as_environment
from workers.store.claimed_runs import BEATS_PER_LEASE, MongoRunRepository
from workers.store.run import Claim, LeaseLostError, run_labels
from workers.store.run_store import RunStore
from workers.store.worker_losses import WorkerLosses
from workers.worker_timings import IsolationTimings
from workflows.chat.package_code.working_directory import WORKING_DIRECTORY

log = logging.getLogger(__name__)

ISOLATION_SLOTS = 4
_PROGRAM = Path(__file__).resolve().parents[2] / "unattended.py"
# Imports our packages by location, as the command does: a user may have folders of the same names on the path.
_BOOT = (
    "import runpy, sys; program, sys.path[:] = sys.argv[1], sys.argv[2:]; "
    "runpy.run_path(program)['bind_packages'](); "
    "from workers.isolated_run import main; main()"
)


@dataclass(slots=True)
class _IsolatedChild:
    exit_code: "asyncio.Future[int | None]"  # the exit code; None if the server died before it was known
    started: asyncio.Event = field(default_factory=asyncio.Event)
    pid: int | None = None


class IsolatedProcesses:
    """All methods except `drain` are called in the worker's loop."""

    def __init__(
        self,
        settings: Settings,
        store: RunStore,
        repository: MongoRunRepository,
        metrics: WorkerMetrics,
        *,
        slots: int = ISOLATION_SLOTS,
        timings: IsolationTimings,
    ) -> None:
        self._settings = settings
        self._repository = repository
        self._losses = WorkerLosses(store)
        self._metrics = metrics
        self._slots = slots
        self._timings = timings
        self._server: subprocess.Popen[bytes] | None = None
        self._children: dict[str, _IsolatedChild] = {}  # by owner
        self._drain_signal: signal.Signals | None = None

    def has_room(self) -> bool:
        return self._slots > 0 and self._drain_signal is None

    def reserve(self) -> bool:
        if not self.has_room():
            return False
        self._slots -= 1
        return True

    def release(self) -> None:
        self._slots += 1

    async def serve(self, claim: Claim) -> None:
        """Returns when the process, or this worker for it, has given the run up; frees the slot."""
        self._metrics.add_isolated_runs(+1)
        try:
            log.info("run_alone", extra={**run_labels(claim.document), "owner": claim.owner})
            child = await self._start(claim)
            if child is not None:
                await self._wait_until_started(claim, child)
                code = await child.exit_code
                await self._handle_exit(claim, child, code)
            else:
                await self._requeue(claim, "no process could be started for it")
        finally:
            self._children.pop(claim.owner, None)
            self._metrics.add_isolated_runs(-1)
            self.release()

    async def _start(self, claim: Claim) -> _IsolatedChild | None:
        loop = asyncio.get_running_loop()
        child = self._children[claim.owner] = _IsolatedChild(loop.create_future())
        request = {"run_id": claim.run_id, "token": claim.token, "owner": claim.owner}
        try:
            if self._server is None:
                self._server = start_server(self._settings)
                self._start_reader(self._server, loop)
            os.write(stdin_of(self._server), json.dumps(request).encode() + b"\n")
        except OSError as error:
            log.warning("run_alone_not_started", extra={**run_labels(claim.document), "error": str(error)[:300]})
            return None
        return child

    def _start_reader(self, server: "subprocess.Popen[bytes]", loop: asyncio.AbstractEventLoop) -> None:
        def read() -> None:
            for line in server.stdout or ():
                _call_in_loop(loop, self._on_report, json.loads(line))
            _call_in_loop(loop, self._on_server_exit, server)

        threading.Thread(target=read, name="runs alone", daemon=True).start()

    def _on_report(self, report: Mapping[str, Any]) -> None:
        child = self._children.get(report["owner"])
        if child is None:
            return
        if "pid" in report:
            child.pid = report["pid"]
            if self._drain_signal is not None:
                _send_signal(child.pid, self._drain_signal)
        elif "begun" in report:
            child.started.set()
        elif not child.exit_code.done():
            child.exit_code.set_result(report["ended"])

    def _on_server_exit(self, server: "subprocess.Popen[bytes]") -> None:
        """Handles the end of the server, killed or ended by `close`.

        From then on only the leases show the state of its processes.
        """
        server.wait()
        if self._server is server:
            self._server = None
            for child in self._children.values():
                if not child.exit_code.done():
                    child.exit_code.set_result(None)

    async def _wait_until_started(self, claim: Claim, child: _IsolatedChild) -> None:
        loop = asyncio.get_running_loop()
        begun = asyncio.ensure_future(child.started.wait())
        give_up_at = loop.time() + self._timings.start_timeout_s
        try:
            while not begun.done() and not child.exit_code.done():
                if loop.time() > give_up_at:
                    self._kill_start(child)
                every_s = self._settings.lease_s / BEATS_PER_LEASE
                await asyncio.wait((begun, child.exit_code), timeout=every_s, return_when=asyncio.FIRST_COMPLETED)
                if not begun.done() and not child.exit_code.done():
                    with suppress(PyMongoError, LeaseLostError):  # its process notices the lost lease as well
                        await self._repository.renew(claim)
        finally:
            begun.cancel()

    def _kill_start(self, child: _IsolatedChild) -> None:
        """Kills a process that does not start.

        If there is none yet, the server itself hangs and is killed. The next suspect gets a new server.
        """
        if child.pid is not None:
            _send_signal(child.pid, signal.SIGKILL)
        elif self._server is not None:
            self._server.kill()

    async def _handle_exit(self, claim: Claim, child: _IsolatedChild, code: int | None) -> None:
        if not child.started.is_set():
            await self._requeue(claim, "the process for it could not start")
        elif code is not None:
            await self._charge_loss(claim, code)

    async def _charge_loss(self, claim: Claim, code: int) -> None:
        """Charges the loss. Matches nothing if the process has given the run up."""
        why = f"its process ended with {describe_exit(code)}"
        try:
            run = await self._repository.find_claim(claim.run_id, claim.token)
            if run is None:
                self._metrics.record_isolated_end(is_lost=False)
                return
            lost = await self._losses.charge(dict(run.document), extra_query={}, cause=why, seen_isolated=True)
            self._metrics.record_isolated_end(is_lost=lost is not None)
        except PyMongoError as error:  # the lease will expire
            log.warning("loss_not_charged", extra={**run_labels(claim.document), "error": type(error).__name__})

    async def _requeue(self, claim: Claim, reason: str) -> None:
        with suppress(PyMongoError, LeaseLostError):  # otherwise the reconciler finds the run by its lease
            await self._repository.requeue(
                claim, delay=self._timings.retry_delay, counts_as_attempt=False, reason=reason
            )

    def drain(self, *, at_once: bool = False) -> None:
        """Passes the drain on. May run in a signal handler: takes no lock and writes no log."""
        self._drain_signal = signal.SIGQUIT if at_once else signal.SIGTERM
        for child in list(self._children.values()):
            if child.pid is not None and not child.exit_code.done():
                _send_signal(child.pid, self._drain_signal)

    def drop(self) -> None:
        """Releases the server in a forked copy of this process: it ends when no process holds its stdin.

        The files are not closed, as the reading thread may hold their locks.
        """
        for pipe in () if self._server is None else (self._server.stdin, self._server.stdout):
            if pipe is not None:
                os.close(pipe.fileno())

    def close(self) -> None:
        self.drain()
        server = self._server
        if server is not None and server.stdin is not None:
            with suppress(OSError):
                server.stdin.close()


def start_server(settings: Settings) -> "subprocess.Popen[bytes]":
    """Starts the server in a session of its own.

    A supervisor that kills the rest of a worker's session leaves these processes their runs.
    """
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _BOOT, str(_PROGRAM), *sys.path],
        env=as_environment(settings),
        cwd=WORKING_DIRECTORY.home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


def stdin_of(server: "subprocess.Popen[bytes]") -> int:
    if server.stdin is None:
        raise BrokenPipeError("the server of runs alone has no stdin")
    return server.stdin.fileno()


def describe_exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


def _send_signal(pid: int, signal_number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal_number)


def _call_in_loop(loop: asyncio.AbstractEventLoop, function: Callable[[Any], None], argument: Any) -> None:
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(function, argument)
