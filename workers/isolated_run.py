"""An isolated run: the process of its own that a suspect of killing its workers runs in.

The worker that claimed the run starts this process and renews the lease until it has begun. From then on this process
owns the run, with a heartbeat and a watchdog of its own, and goes on if that worker dies.
"""

import gc
import json
import logging
import os
import select
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from pymongo.errors import PyMongoError

from workers.celery import configure
from workers.embedded_services import with_services
from workers.engine import execute
from workers.logs import configure_logging
from workers.process.shutdown import CUT_OFF, HANDED_BACK, ShutdownDeadline, end_process
from workers.process.worker import WorkerProcess
from workers.settings import Settings, SettingsError, load_settings
from workflows.models_file import ModelsFileError
from workflows.operator_file import OperatorFileError

log = logging.getLogger(__name__)

# If memory is short, the kernel kills these processes before their worker, which has all other runs.
_OOM_SCORE = "1000"


class IsolatedRun:
    def __init__(self, settings: Settings, report_started: Callable[[], None]) -> None:
        self._settings = settings
        self._report_started = report_started
        self._worker: WorkerProcess | None = None
        self._is_draining = False
        self._shutdown = ShutdownDeadline(lambda: 1)  # this process ends with its run, not when idle

    def install_signal_handlers(self) -> None:
        """Handles the signals that the worker passes on.

        Signals of a terminal do not reach this process.
        """
        signal.signal(signal.SIGTERM, lambda *_: self._drain(at_once=False))
        signal.signal(signal.SIGQUIT, lambda *_: self._drain(at_once=True))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._shutdown.start(grace_s=self._settings.grace_s)

    def _drain(self, *, at_once: bool) -> None:
        """Starts the drain. Runs in a signal handler: takes no lock and writes no log."""
        self._is_draining = True
        self._shutdown.begin_with_code(HANDED_BACK)
        worker = self._worker
        if worker is not None:
            worker.drain_at_once() if at_once else worker.drain()

    def serve(self, run_id: str, token: int) -> None:
        worker = WorkerProcess(self._settings, isolation_slots=0)
        try:
            worker.start()
            self._worker = worker
            if self._is_draining:
                worker.drain()
            worker.submit(self._execute(worker, run_id, token)).result()
        finally:
            self._shutdown.begin_with_code(HANDED_BACK)  # even if something hangs during the stop
            worker.stop()

    async def _execute(self, worker: WorkerProcess, run_id: str, token: int) -> None:
        claim = await worker.repository.find_claim(run_id, token)
        if claim is None or self._is_draining:
            return
        self._report_started()
        await execute(claim, worker.services)
        released = await worker.admission.release_after(claim)
        if released is not None:
            worker.wakeups.send(released)


def serve_run(settings: Settings, request: Mapping[str, Any], report_started: Callable[[], None]) -> NoReturn:
    """Serves the run and ends this process.

    Until it has reported its beginning, no code of a package has run in it.
    """
    configure_logging(role="worker", log_format=settings.log_format, log_level=settings.log_level)
    code = HANDED_BACK
    try:
        configure(settings)
        isolated = IsolatedRun(settings, report_started)
        isolated.install_signal_handlers()
        isolated.serve(request["run_id"], request["token"])
    except (ModelsFileError, OperatorFileError, SettingsError, PyMongoError, OSError) as error:
        log.error("worker_cannot_start", extra={"run_id": request["run_id"], "error": str(error)[:300]})
        code = CUT_OFF
    except BaseException:  # the last step of this process, which must not return into the server
        log.exception("run_alone_failed", extra={"run_id": request["run_id"]})
        code = CUT_OFF
    end_process(code)
    raise AssertionError("unreachable: the process has ended")


def main() -> None:
    settings = with_services(load_settings())
    gc.freeze()
    IsolationServer(settings).serve()


class IsolationServer:
    """Forks a process for each line on stdin, and reports their starts and ends on stdout.

    It has imported everything once, has a single thread and no connection, and runs no code of a package: a fork
    inherits modules only. It ends when its worker closes stdin; the forked processes finish their runs in any case.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._owners: dict[int, str] = {}  # by process id, of live processes
        self._wakeup_reader, self._wakeup_writer = os.pipe()

    def serve(self) -> None:
        """Until stdin is closed."""
        os.set_blocking(self._wakeup_writer, False)
        signal.set_wakeup_fd(self._wakeup_writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        unread = b""
        while True:
            readable, _, _ = select.select([0, self._wakeup_reader], [], [])
            if self._wakeup_reader in readable:
                os.read(self._wakeup_reader, 4096)
                self._report_ended()
            if 0 not in readable:
                continue
            chunk = os.read(0, 65_536)
            if not chunk:
                return
            *lines, unread = (unread + chunk).split(b"\n")
            for line in lines:
                self._fork(json.loads(line))

    def _fork(self, request: dict[str, Any]) -> None:
        try:
            pid = os.fork()
        except OSError as error:  # out of memory or of process ids
            write_report(owner=request["owner"], ended=1, error=str(error))
            return
        if pid == 0:
            self._run_child(request)
        self._owners[pid] = request["owner"]
        write_report(owner=request["owner"], pid=pid)

    def _run_child(self, request: dict[str, Any]) -> NoReturn:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()  # signals to its process group are handled by the child
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE, encoding="ascii")
        for descriptor in (self._wakeup_reader, self._wakeup_writer):
            os.close(descriptor)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)

        def report_started() -> None:
            write_report(owner=request["owner"], begun=True)
            os.dup2(2, 1)  # output of a package must not be read as a report

        serve_run(self._settings, request, report_started)

    def _report_ended(self) -> None:
        for pid in tuple(self._owners):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                write_report(owner=self._owners.pop(pid), ended=os.waitstatus_to_exitcode(status))


def write_report(**report: Any) -> None:
    """Writes a short line in one call, so that reports of several processes do not mix.

    Errors are ignored: the worker may be gone.
    """
    with suppress(BrokenPipeError):
        os.write(1, json.dumps(report).encode() + b"\n")
