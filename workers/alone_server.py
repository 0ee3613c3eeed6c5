"""The server of processes for one run: imports what they need once, then forks one for each line on stdin.

It has a single thread and no connection, and runs no code of a package: what a fork inherits is modules. A worker
starts it when it meets its first suspect (`workers.process.alone`), reads on stdout which of its processes have begun
and ended, and ends it by closing stdin. Those that it has forked finish their run in any case.
"""

import gc
import json
import os
import select
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from workers.alone_run import serve_run
from workers.embedded_services import with_services
from workers.settings import Settings, load_settings

# Where memory is short, the kernel ends these before their worker, which has all other runs.
_OOM_SCORE = "1000"


def main() -> None:
    settings = with_services(load_settings())
    gc.freeze()
    IsolationServer(settings).serve()


class IsolationServer:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._owners: dict[int, str] = {}  # by process id, of those that live
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
        except OSError as error:  # no memory, no process numbers
            write_report(owner=request["owner"], ended=1, error=str(error))
            return
        if pid == 0:
            self._run_child(request)
        self._owners[pid] = request["owner"]
        write_report(owner=request["owner"], pid=pid)

    def _run_child(self, request: dict[str, Any]) -> NoReturn:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()  # a signal to its process group is its own affair
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE, encoding="ascii")
        for each in (self._wakeup_reader, self._wakeup_writer):
            os.close(each)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)

        def report_begun() -> None:
            write_report(owner=request["owner"], begun=True)
            os.dup2(2, 1)  # what a package prints is no report

        serve_run(self._settings, request, report_begun)

    def _report_ended(self) -> None:
        for pid in tuple(self._owners):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                write_report(owner=self._owners.pop(pid), ended=os.waitstatus_to_exitcode(status))


def write_report(**report: Any) -> None:
    """One short line, so that reports of several processes do not mix. A worker that is gone misses none."""
    with suppress(BrokenPipeError):
        os.write(1, json.dumps(report).encode() + b"\n")
