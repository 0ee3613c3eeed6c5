"""Tool threads: bounded, reused, interrupted, or abandoned; they block no exit."""

import asyncio
import contextlib
import importlib
import importlib.util
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from workflows.chat.package_code.thread_jobs import _CALLING_MODULES, ThreadJob, ToolStopped
from workflows.chat.package_code.tool_threads import NoThreadFreeError, ToolThreads


async def wait_until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 -- what a thread does sets no event of asyncio
            await asyncio.sleep(0.001)


@pytest.fixture
def pool() -> Iterator[ToolThreads]:
    threads = ToolThreads(2, name="some")
    yield threads
    threads.close()


async def run(pool: ToolThreads, function: Callable[[], Any], timeout_s: float = 5.0) -> Any:
    return await pool.run(function, name="f", timeout_s=timeout_s)


class SpinningFunction:
    """Works for ever, step by step, and sets `stopped` when it is interrupted."""

    def __init__(self, stopped: threading.Event | None = None) -> None:
        self.began = threading.Event()
        self.stopped = stopped or threading.Event()

    def __call__(self) -> None:
        self.began.set()
        try:
            while True:
                time.sleep(0.0005)
        except ToolStopped:
            self.stopped.set()
            raise


async def test_calls_run_in_daemon_threads_that_are_used_again() -> None:
    pool = ToolThreads(1, name="some")
    seen = [await run(pool, threading.current_thread) for _ in range(5)]

    assert {each.name for each in seen} == {"some_1"}
    assert all(each.daemon for each in seen)
    assert pool.thread_count == 1


async def test_no_more_threads_than_it_may_have(pool: ToolThreads) -> None:
    both_run = threading.Barrier(2)

    def slow() -> int:
        both_run.wait(10)
        return threading.get_ident()

    names = await asyncio.gather(*(run(pool, slow) for _ in range(10)))

    assert len(set(names)) == pool.thread_count == 2


async def test_an_idle_thread_ends() -> None:
    idle = ToolThreads(1, idle_s=0.001)
    thread = await run(idle, threading.current_thread)

    await wait_until(lambda: not thread.is_alive())
    assert idle.thread_count == 0
    assert await run(idle, lambda: 1) == 1


async def test_a_slow_function_is_interrupted_and_its_thread_reused() -> None:
    pool, spinning = ToolThreads(1), SpinningFunction()

    with pytest.raises(TimeoutError):
        await run(pool, spinning, 0.02)

    await wait_until(spinning.stopped.is_set)
    assert await run(pool, lambda: "next") == "next"
    assert (pool.thread_count, pool.abandoned_count) == (1, 0)


async def test_a_cancelled_function_gets_a_stop_signal(pool: ToolThreads) -> None:
    spinning = SpinningFunction()
    task = asyncio.create_task(run(pool, spinning))
    await wait_until(spinning.began.is_set)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await wait_until(spinning.stopped.is_set)


async def test_a_call_that_ends_in_that_moment_disturbs_no_other() -> None:
    """The exception never leaves the call it is meant for, however close the end is."""
    pool = ToolThreads(1)

    def steps() -> None:
        for _ in range(10):
            time.sleep(0.0001)

    for number in range(60):
        duration_s = 0.001 + number % 7 * 0.0002
        with contextlib.suppress(TimeoutError, NoThreadFreeError):
            await run(pool, steps, duration_s)
        assert await run(pool, lambda: 7) == 7
    assert (pool.thread_count, pool.abandoned_count) == (1, 0)


async def test_a_thread_that_ignores_its_stop_is_replaced_until_it_returns(caplog: pytest.LogCaptureFixture) -> None:
    pool, release = ToolThreads(1, stop_grace_s=0.01), threading.Lock()
    release.acquire()

    with pytest.raises(TimeoutError):
        await run(pool, release.acquire, 0.2)  # waits in C; longer than a new thread takes to begin
    assert await run(pool, lambda: "next") == "next"

    assert pool.abandoned_count == 1
    assert [record.tool for record in caplog.records if record.getMessage() == "tool_thread_abandoned"] == ["f"]  # type: ignore[attr-defined]  # a field
    release.release()
    await wait_until(lambda: pool.abandoned_count == 0)
    assert await run(pool, lambda: pool.thread_count) == 1


async def test_no_more_are_replaced_than_the_pool_has() -> None:
    pool, release = ToolThreads(1, stop_grace_s=0.0), threading.Lock()
    release.acquire()

    for _ in range(2):
        with pytest.raises(TimeoutError):
            await run(pool, release.acquire, 0.5)  # longer than a new thread takes to begin
    with pytest.raises(NoThreadFreeError):
        await run(pool, lambda: 1, 0.005)

    assert (pool.thread_count, pool.abandoned_count) == (2, 2)
    release.release()


async def cancel_when(pool: ToolThreads, function: Callable[[], Any], *, when: Callable[[], Any]) -> None:
    task = asyncio.create_task(run(pool, function))
    await wait_until(when)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class LockTakingFunction:
    """Waits for a lock, and is not interrupted meanwhile."""

    def __init__(self, lock: threading.Lock, contended: threading.Event) -> None:
        self._lock = lock
        self._contended = contended

    def acquire(self) -> None:
        self._contended.set()
        self._lock.acquire()


async def test_a_thread_that_returns_at_last_serves_the_next_waiting_call() -> None:
    pool = ToolThreads(2, name="some", stop_grace_s=0.0)
    locks = [threading.Lock() for _ in range(4)]
    for lock in locks:
        lock.acquire()
        wanted = threading.Event()
        await cancel_when(pool, LockTakingFunction(lock, wanted).acquire, when=wanted.is_set)
    assert pool.abandoned_count == 4
    waiting = asyncio.create_task(run(pool, lambda: "its turn"))
    await asyncio.sleep(0)

    locks[0].release()

    assert await waiting == "its turn"
    for lock in locks[1:]:
        lock.release()


class SlowToBegin(threading.Event):
    waited_for = False

    @override
    def wait(self, timeout: float | None = None) -> bool:
        self.waited_for = True
        for _ in range(20):
            time.sleep(0.003)
        return super().wait(timeout)


async def test_a_call_that_imports_or_starts_a_thread_is_stopped_after_it(
    pool: ToolThreads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many modules cannot be imported twice.

    A thread that is interrupted before it began would never begin, and its starter would wait for ever."""
    (tmp_path / "slow_to_load.py").write_text("import time\nfor _ in range(20): time.sleep(0.003)\n")
    monkeypatch.syspath_prepend(tmp_path)
    thread, slow, done = threading.Thread(target=int), SlowToBegin(), []
    thread._started = slow  # type: ignore[attr-defined]  # there is no other way to be slow at this

    def load() -> None:
        importlib.import_module("slow_to_load")
        done.append("loaded")

    def start() -> None:
        thread.start()
        done.append("started")

    await cancel_when(pool, load, when=lambda: "slow_to_load" in sys.modules)
    await cancel_when(pool, start, when=lambda: slow.waited_for)

    await wait_until(lambda: sorted(done) == ["loaded", "started"])


async def test_waiting_for_a_thread_does_not_count_as_work() -> None:
    pool = ToolThreads(1)
    first = asyncio.create_task(run(pool, lambda: time.sleep(0.25)))
    second = asyncio.create_task(run(pool, lambda: time.sleep(0.25), 0.4))

    await second
    await first


async def test_one_that_waits_too_long_is_never_begun(pool: ToolThreads) -> None:
    release = threading.Event()
    busy = [asyncio.create_task(run(pool, release.wait)) for _ in range(2)]
    begun: list[int] = []
    await wait_until(lambda: pool.thread_count == 2)

    with pytest.raises(NoThreadFreeError, match=r"for 0\.01 s"):
        await run(pool, lambda: begun.append(1), 0.01)
    release.set()
    await asyncio.gather(*busy)

    assert await run(pool, lambda: begun) == []


class SlowHandler(logging.Handler):
    """Takes its time for each record, in many steps."""

    def __init__(self, steps: int = 1) -> None:
        super().__init__()
        self.steps = steps
        self.flooding = 0
        self.begun = 0
        self.finished = 0

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.begun += 1
        for _ in range(self.steps):
            time.sleep(0.0005)
        self.finished += 1


@contextlib.contextmanager
def log_with(handler: logging.Handler) -> Iterator[logging.Logger]:
    log = logging.getLogger("tests.flood")
    log.addHandler(handler)
    log.propagate = False
    factory = logging.getLogRecordFactory()
    try:
        yield log
    finally:
        log.removeHandler(handler)
        logging.setLogRecordFactory(factory)


def assert_free(handler: logging.Handler) -> None:
    for lock in (logging._lock, handler.lock):  # type: ignore[attr-defined]  # no API
        assert lock is not None
        assert lock.acquire(blocking=False)
        lock.release()


async def test_a_function_that_floods_the_log_is_stopped_and_others_still_log() -> None:
    """An interrupt while it logs would leave a lock, and block all other log lines."""
    pool, handler, went_on = ToolThreads(2), SlowHandler(), threading.Event()

    def flood() -> None:
        handler.flooding += 1
        try:
            while True:
                log.warning("again")
        finally:
            handler.flooding -= 1

    def once() -> None:
        log.warning("still there")
        went_on.set()

    with log_with(handler) as log:
        for _ in range(5):
            flooding = [run(pool, flood, 0.005) for _ in range(2)]
            ends = await asyncio.gather(*flooding, return_exceptions=True)
            assert {type(end) for end in ends} <= {TimeoutError, NoThreadFreeError}
        await run(pool, once)
        assert went_on.is_set()
        await wait_until(lambda: handler.flooding == 0)
        assert handler.begun == handler.finished
        assert_free(handler)


async def test_a_function_that_logs_is_stopped_only_after_its_log_line(pool: ToolThreads) -> None:
    handler, stopped = SlowHandler(steps=40), threading.Event()

    def log_and_spin() -> None:
        log.warning("a long line")
        SpinningFunction(stopped=stopped)()

    with log_with(handler) as log:
        await cancel_when(pool, log_and_spin, when=lambda: handler.begun)
        await wait_until(stopped.is_set)

        assert (handler.begun, handler.finished) == (1, 1)
        assert_free(handler)


async def test_a_thread_that_moves_on_during_the_check_is_not_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have taken a lock meanwhile."""
    entered, go_on, moved_on, finished = (threading.Event() for _ in range(4))

    def work() -> None:
        entered.set()
        while not go_on.is_set():
            time.sleep(0.0005)
        moved_on.set()
        while not finished.is_set():
            time.sleep(0.0005)

    def let_it_move_on(*_: Any) -> bool:
        go_on.set()
        return moved_on.wait(10)

    job = ThreadJob(work, "f", asyncio.get_running_loop())

    def run_job() -> None:
        job.mark_started()
        job.run_function()

    def is_interrupted() -> bool:
        job.try_interrupt()
        return job.is_interrupted

    thread = threading.Thread(target=run_job)
    thread.start()
    entered.wait(10)
    with monkeypatch.context() as patched:
        patched.setattr("workflows.chat.package_code.thread_jobs._can_interrupt", let_it_move_on)
        job.try_interrupt()

    assert not job.is_interrupted
    await wait_until(is_interrupted)
    thread.join(10)
    assert not thread.is_alive()
    assert not finished.is_set()


def test_the_code_around_a_function_is_known_by_its_modules() -> None:
    """By name, as they import the jobs: a stale name would let an interrupt lose the function's result."""
    assert [name for name in _CALLING_MODULES if importlib.util.find_spec(name) is None] == []


async def test_a_closed_pool_begins_nothing_more() -> None:
    pool, began, release = ToolThreads(1), threading.Event(), threading.Event()

    def wait() -> bool:
        began.set()
        return release.wait()

    busy = asyncio.create_task(run(pool, wait))
    await wait_until(began.is_set)
    waiting = asyncio.create_task(run(pool, lambda: 1))
    await asyncio.sleep(0)

    pool.close()

    with pytest.raises(RuntimeError, match="closed"):
        await waiting
    with pytest.raises(RuntimeError, match="closed"):
        await run(pool, lambda: 1)
    release.set()
    assert await busy is True
    await wait_until(lambda: pool.thread_count == 0)
