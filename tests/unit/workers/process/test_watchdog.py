"""The watchdog: a busy loop is left alone, a hanging one is not."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from workers.process.watchdog import Watchdog


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_a_loop_that_stands_still_is_noticed(loop: asyncio.AbstractEventLoop) -> None:
    stuck, let_go = threading.Event(), threading.Event()
    watchdog = Watchdog(loop, patience_s=0.2, on_stuck=stuck.set)
    watchdog.start()

    loop.call_soon_threadsafe(let_go.wait)

    assert stuck.wait(10)
    let_go.set()
    watchdog.stop()


def test_a_loop_that_turns_is_left_alone(loop: asyncio.AbstractEventLoop) -> None:
    looks = threading.Semaphore(0)
    stuck = threading.Event()
    watchdog = Watchdog(loop, patience_s=0.4, on_stuck=stuck.set)
    tick = watchdog._tick
    watchdog._tick = lambda: (tick(), looks.release())  # type: ignore[method-assign, assignment, func-returns-value]  # counts looks
    watchdog.start()

    assert all(looks.acquire(timeout=10) for _ in range(8))

    assert not stuck.is_set()
    watchdog.stop()
