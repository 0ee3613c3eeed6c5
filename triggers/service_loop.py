"""A role's loop: repeats a step until it is told to stop, and outlasts a MongoDB that is away."""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from pymongo.errors import PyMongoError

log = logging.getLogger(__name__)

MIN_PAUSE_S = 0.5
MAX_PAUSE_S = 10.0


class Outage:
    """One line when it begins and one when it ends, however often is tried in between."""

    def __init__(self, step_name: str) -> None:
        self._step_name = step_name
        self._failures = 0

    def record_failure(self, error: PyMongoError) -> float:
        """Seconds to wait before the next try."""
        if self._failures == 0:
            log.warning(
                "mongodb_unavailable",
                extra={"step": self._step_name, "error": f"{type(error).__name__}: {str(error)[:200]}"},
            )
        pause_s = min(MIN_PAUSE_S * 2.0 ** min(self._failures, 10), MAX_PAUSE_S)
        self._failures += 1
        return pause_s

    def record_success(self) -> None:
        if self._failures:
            log.info("mongodb_available", extra={"step": self._step_name, "failures": self._failures})
        self._failures = 0


async def repeat(step: Callable[[], Awaitable[float]], *, step_name: str, stop: asyncio.Event) -> None:
    """`step` returns the seconds until it wants to be called again."""
    outage = Outage(step_name)
    while not stop.is_set():
        try:
            pause_s = await step()
        except PyMongoError as error:
            pause_s = outage.record_failure(error)
        else:
            outage.record_success()
        await wait_for_stop(stop, pause_s)


async def wait_for_stop(stop: asyncio.Event, seconds: float) -> None:
    """Up to `seconds`, less when told to stop; always lets others run."""
    try:
        async with asyncio.timeout(max(seconds, 0.001)):
            await stop.wait()
    except TimeoutError:
        pass


@contextmanager
def stop_on_signals() -> Iterator[asyncio.Event]:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    signals = (signal.SIGTERM, signal.SIGINT)
    for each in signals:
        loop.add_signal_handler(each, stop.set)
    try:
        yield stop
    finally:
        for each in signals:
            loop.remove_signal_handler(each)
