"""The memory watch: a worker above its limit hands its runs back and restarts.

Packages bring their own code and its leaks, and a process that runs for weeks keeps its highest memory use. First it
collects garbage and returns free memory of the allocator to the system. A worker that would soon be above the limit
again is not restarted: then the limit is too low, and a restart would not help.
"""

import ctypes
import gc
import logging
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path

from workers.worker_timings import MemoryTimings

log = logging.getLogger(__name__)

MIB = 1024 * 1024
_STATM = Path("/proc/self/statm")


class Advice(Enum):
    FINE = "fine"
    RELIEVE = "relieve"
    START_ANEW = "start anew"
    LIMIT_TOO_LOW = "limit too low"


def advise(timings: MemoryTimings, *, resident: int, limit: int, uptime_s: float, relieved_s: float | None) -> Advice:
    """Decides what to do.

    `relieved_s` is the time since the last trim since memory was below the limit.
    """
    if resident <= limit:
        return Advice.FINE
    if relieved_s is None:
        return Advice.RELIEVE
    if uptime_s >= timings.min_uptime_s:
        return Advice.START_ANEW
    return Advice.RELIEVE if relieved_s >= timings.trim_interval_s else Advice.LIMIT_TOO_LOW


def resident_bytes() -> int:
    """Returns the present memory use.

    Where the system has no such number, it is the highest so far.
    """
    with suppress(OSError):
        return int(_STATM.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def trim_memory() -> None:
    gc.collect()
    with suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)


class MemoryWatch:
    def __init__(self, *, limit_mb: int, restart: Callable[[], None], timings: MemoryTimings) -> None:
        self._limit = limit_mb * MIB
        self._restart = restart
        self._timings = timings
        self._started_at = time.monotonic()
        self._relieved_at: float | None = None
        self._is_low_limit_logged = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _watch(self) -> None:
        while not self._stop.wait(self._timings.check_interval_s):
            if self._check():
                return

    def _check(self) -> bool:
        """Checks once. Returns whether watching is over."""
        now = time.monotonic()
        resident, uptime_s = resident_bytes(), now - self._started_at
        relieved_s = None if self._relieved_at is None else now - self._relieved_at
        advice = advise(self._timings, resident=resident, limit=self._limit, uptime_s=uptime_s, relieved_s=relieved_s)
        extra = {"resident_mb": resident // MIB, "limit_mb": self._limit // MIB, "uptime_s": round(uptime_s)}
        if advice is Advice.FINE:
            self._relieved_at = None
        elif advice is Advice.RELIEVE:
            self._relieved_at = now
            trim_memory()
        elif advice is Advice.LIMIT_TOO_LOW and not self._is_low_limit_logged:
            self._is_low_limit_logged = True
            log.warning("memory_limit_too_low", extra={**extra, "advice": "raise UNATTENDED_MAX_MEMORY_MB"})
        elif advice is Advice.START_ANEW:
            log.warning("memory_limit_reached", extra={**extra, "pid": os.getpid()})
            self._restart()
        return advice is Advice.START_ANEW
