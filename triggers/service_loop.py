"""The service loop: repeats a step, and survives outages of MongoDB."""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from pymongo.errors import PyMongoError

log = logging.getLogger(__name__)

MIN_PAUSE_S = 0.5
MAX_PAUSE_S = 10.0
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Outage:
    """Logs one line when an outage begins and one when it ends."""

    def __init__(self, step_name: str, *, min_pause_s: float = MIN_PAUSE_S) -> None:
        self._step_name = step_name
        self._min_pause_s = min_pause_s
        self._failures = 0

    def record_failure(self, error: PyMongoError) -> float:
        """Returns the seconds to wait before the next try."""
        if self._failures == 0:
            log.warning(
                "mongodb_unavailable",
                extra={"step": self._step_name, "error": f"{type(error).__name__}: {str(error)[:200]}"},
            )
        pause_s = min(self._min_pause_s * 2.0 ** min(self._failures, 10), MAX_PAUSE_S)
        self._failures += 1
        return pause_s

    def record_success(self) -> None:
        if self._failures:
            log.info("mongodb_available", extra={"step": self._step_name, "failures": self._failures})
        self._failures = 0


async def repeat(
    step: Callable[[], Awaitable[float]],
    *,
    step_name: str,
    stop: asyncio.Event,
    min_pause_s: float = MIN_PAUSE_S,
) -> None:
    """Repeats `step`, which returns the seconds until its next call."""
    outage = Outage(step_name, min_pause_s=min_pause_s)
    while not stop.is_set():
        try:
            pause_s = await step()
        except PyMongoError as error:
            pause_s = outage.record_failure(error)
        else:
            outage.record_success()
        await wait_for_stop(stop, pause_s)


async def wait_for_stop(stop: asyncio.Event, seconds: float) -> None:
    """Waits up to `seconds`, or until `stop`. Always yields to other tasks."""
    try:
        async with asyncio.timeout(max(seconds, 0.001)):
            await stop.wait()
    except TimeoutError:
        pass


@contextmanager
def stop_on_signals() -> Iterator[asyncio.Event]:
    """Yields an event that SIGTERM and SIGINT set."""
    stop = asyncio.Event()
    with handle_stop_signals(stop.set):
        yield stop


@contextmanager
def handle_stop_signals(on_signal: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in _STOP_SIGNALS:
            loop.remove_signal_handler(number)
