"""Shutdown: enforces the deadline with os._exit; other code may block a normal exit.

Supervisors kill some time after they ask (docker ten seconds). Until then turns in progress may end during the grace
period, and their runs are handed back. But Celery waits for its threads, a frozen MongoDB blocks writers and a frozen
Redis blocks closing connections: so a thread of its own ends the process.
"""

import logging
import os
import sys
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

EXIT_DELAY_S = 2.0  # after the grace period
IDLE_S = 3.0  # no run is left: Celery only closes its connections, which is not needed
CHECK_INTERVAL_S = 0.2

# Exit codes. 1 also means that the worker could not start.
HANDED_BACK = 0
CUT_OFF = 1


def end_process(code: int) -> None:
    """Ends the process without returning.

    The interpreter would wait for threads first, and a hanging tool never ends its thread.
    """
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)


class ShutdownDeadline:
    """Ends the process at its deadline, or earlier when its runs are handed back.

    `begin` may be called from a signal handler, even on top of itself: it takes no lock and writes no log.
    """

    def __init__(
        self,
        count_runs: Callable[[], int],
        *,
        end: Callable[[int], None] = end_process,
        exit_delay_s: float = EXIT_DELAY_S,
        idle_s: float = IDLE_S,
        check_interval_s: float = CHECK_INTERVAL_S,
    ) -> None:
        self._count_runs = count_runs  # the number of runs that this process holds
        self._end = end
        self._has_begun = False
        self._code: int | None = None
        self._exit_delay_s = self._timeout_s = exit_delay_s
        self._idle_s = idle_s
        self._check_interval_s = check_interval_s
        self._thread = threading.Thread(target=self._watch, name="leaving", daemon=True)

    def start(self, *, grace_s: float) -> None:
        self._timeout_s = grace_s + self._exit_delay_s
        self._thread.start()

    def begin(self) -> None:
        self._has_begun = True

    def begin_with_code(self, code: int) -> None:
        """Begins shutdown without Celery.

        The process ends with this code as soon as its runs are handed back.
        """
        self._code = code
        self._has_begun = True

    def _watch(self) -> None:
        while not self._has_begun:
            time.sleep(self._check_interval_s)
        log.info("worker_stopping", extra={"runs": self._count_runs()})
        leave_by = time.monotonic() + self._timeout_s
        idle_since: float | None = None
        while (now := time.monotonic()) < leave_by:
            idle_since = (idle_since or now) if self._count_runs() == 0 else None
            if idle_since is not None and now - idle_since >= (self._idle_s if self._code is None else 0):
                self._end_process(HANDED_BACK)
                return
            time.sleep(self._check_interval_s)
        log.warning("runs_cut_off", extra={"runs": self._count_runs()})
        self._end_process(CUT_OFF)

    def _end_process(self, code: int) -> None:
        self._end(code if self._code is None else self._code)
