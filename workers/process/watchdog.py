"""The watchdog: ends a process with a hanging event loop.

So its runs get another owner. The heartbeat renews leases from its own thread, whatever a chat does. That is right for
a tool that blocks the loop for a while, but a tool that blocks it for ever would keep all runs of the process for ever.
"""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

EXIT_CODE = 70  # "internal software error" in sysexits.h
CHECK_INTERVAL_S = 1.0


def exit_stuck_process() -> None:
    os._exit(EXIT_CODE)  # a blocked loop would block a normal exit as well


class Watchdog:
    def __init__(self, loop: asyncio.AbstractEventLoop, *, patience_s: float, on_stuck: Callable[[], None]) -> None:
        self._loop = loop
        self._patience_s = patience_s
        self._on_stuck = on_stuck
        self._ticked_at = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=CHECK_INTERVAL_S * 2)

    def stalled_s(self) -> float:
        return time.monotonic() - self._ticked_at

    def _watch(self) -> None:
        self._ticked_at = time.monotonic()
        while not self._stop.wait(min(CHECK_INTERVAL_S, self._patience_s / 4)):
            self._loop.call_soon_threadsafe(self._tick)
            if self.stalled_s() > self._patience_s:
                log.critical("event_loop_stuck", extra={"seconds": round(self.stalled_s())})
                self._on_stuck()
                return

    def _tick(self) -> None:
        self._ticked_at = time.monotonic()
