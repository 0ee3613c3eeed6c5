"""Tool threads: daemon threads for a package's plain functions, which may hang.

A function that takes too long gets an exception in its thread. If it waits in C code, the exception cannot arrive: the
thread is abandoned and ends when the call returns. Another thread replaces it, so a few calls that hang for ever do not
use up the pool. The process exits without waiting for any of them.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from workflows.chat.package_code.thread_jobs import ThreadJob

log = logging.getLogger(__name__)

IDLE_TIMEOUT_S = 30.0
STOP_GRACE_S = 1.0
STOP_INTERVAL_S = 0.02
ABANDONED_INTERVAL_S = 0.5  # for a call that could not be interrupted yet


class NoThreadFreeError(Exception):
    """Every thread was busy for the call's whole timeout; the call was not started."""


class ToolThreads:
    """Runs at most `size` calls at once, and as many again while others hang."""

    def __init__(
        self, size: int, *, name: str = "tools", idle_s: float = IDLE_TIMEOUT_S, stop_grace_s: float = STOP_GRACE_S
    ) -> None:
        self._size = size
        self._name = name
        self._idle_s = idle_s
        self._stop_grace_s = stop_grace_s
        self._queue: deque[ThreadJob] = deque()
        self._changed = threading.Condition()
        self._thread_count = 0
        self._idle_count = 0
        self._abandoned_count = 0
        self._started_count = 0
        self._closed = False

    @property
    def thread_count(self) -> int:
        return self._thread_count

    @property
    def abandoned_count(self) -> int:
        return self._abandoned_count

    def close(self) -> None:
        """Drops waiting calls and leaves running ones alone."""
        with self._changed:
            self._closed = True
            dropped, self._queue = list(self._queue), deque()
            self._changed.notify_all()
        for job in dropped:
            job.call_on_loop(job.fail, RuntimeError("the tool threads are closed"))

    async def run(self, function: Callable[[], Any], *, name: str, timeout_s: float) -> Any:
        """Returns the result of `function`, which must not raise.

        Raises TimeoutError after `timeout_s` of work. Waiting for a thread counts apart and ends with NoThreadFreeError
        after the same time."""
        job = ThreadJob(function, name, asyncio.get_running_loop())
        timer = _Timer(job, timeout_s)
        try:
            self._submit(job)
            return await job.result
        except (asyncio.CancelledError, TimeoutError, NoThreadFreeError):
            self._stop_job(job)
            raise
        finally:
            timer.cancel()

    def _submit(self, job: ThreadJob) -> None:
        with self._changed:
            if self._closed:
                raise RuntimeError("the tool threads are closed")
            self._queue.append(job)
            if self._idle_count >= len(self._queue):
                self._changed.notify()
            else:
                self._start_thread()

    def _start_thread(self) -> None:
        if self._thread_count >= self._size + min(self._abandoned_count, self._size):
            return
        self._started_count += 1
        thread = threading.Thread(target=self._run_jobs, name=f"{self._name}_{self._started_count}", daemon=True)
        self._thread_count += 1
        try:
            thread.start()
        except RuntimeError:  # the system starts no more threads: the existing ones must do
            self._thread_count -= 1
            log.warning("tool_thread_not_started", extra={"threads": self._thread_count})

    def _run_jobs(self) -> None:
        while (job := self._next_job()) is not None:
            value = job.run_function()
            if self._finish_job(job):
                job.call_on_loop(job.deliver, value)
                return
            job.call_on_loop(job.deliver, value)
            del job, value  # an idle thread keeps no references

    def _next_job(self) -> ThreadJob | None:
        """Returns the next job, or None after the idle time."""
        with self._changed:
            self._idle_count += 1
            while not self._queue:
                if self._closed or not (self._changed.wait(self._idle_s) or self._queue):
                    self._idle_count -= 1
                    self._thread_count -= 1
                    return None
            self._idle_count -= 1
            job = self._queue.popleft()
            job.mark_started()
            return job

    def _finish_job(self, job: ThreadJob) -> bool:
        """Ends a job. Returns whether another thread has replaced this one."""
        with self._changed:
            job.is_over = True
            if job.is_abandoned:
                self._abandoned_count -= 1
                self._thread_count -= 1
                if self._queue:  # calls wait when more threads hang than could be replaced
                    self._start_thread()
            return job.is_abandoned

    def _stop_job(self, job: ThreadJob) -> None:
        with self._changed:
            if job.started_at is None:
                if job in self._queue:
                    self._queue.remove(job)
                return
        self._interrupt_until(job, time.monotonic() + self._stop_grace_s)

    def _interrupt_until(self, job: ThreadJob, deadline: float) -> None:
        if not job.is_over:
            job.try_interrupt()
        if time.monotonic() >= deadline:
            self._abandon(job)
        if not job.is_over and not (job.is_interrupted and job.is_abandoned):
            job.loop.call_later(
                ABANDONED_INTERVAL_S if job.is_abandoned else STOP_INTERVAL_S, self._interrupt_until, job, deadline
            )

    def _abandon(self, job: ThreadJob) -> None:
        with self._changed:
            if job.is_over or job.is_abandoned:
                return
            job.is_abandoned = True
            self._abandoned_count += 1
            if self._queue:
                self._start_thread()
        log.warning("tool_thread_abandoned", extra={"tool": job.name, "abandoned": self._abandoned_count})


class _Timer:
    """One timer for waiting and working: it checks at the end whether a thread began."""

    def __init__(self, job: ThreadJob, timeout_s: float) -> None:
        self._job = job
        self._timeout_s = timeout_s
        self._handle = job.loop.call_later(timeout_s, self._check_timeout)

    def cancel(self) -> None:
        self._handle.cancel()

    def _check_timeout(self) -> None:
        job = self._job
        remaining_s = 0.0 if job.started_at is None else job.started_at + self._timeout_s - time.monotonic()
        if remaining_s > 0:
            self._handle = job.loop.call_later(remaining_s, self._check_timeout)
        elif job.started_at is None:
            job.fail(NoThreadFreeError(f"no thread was free for {self._timeout_s:g} s"))
        else:
            job.fail(TimeoutError())
