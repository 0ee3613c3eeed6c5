"""Tool threads: daemon threads for a package's plain functions, which may hang, and must hold up nobody then.

A function that takes too long is told to stop by an exception that is raised in its thread. One that cannot hear it,
since it waits in C code, is abandoned: its thread ends when the call returns, and until then another one takes its
place, so that a few calls that hang for ever do not use up the pool. The process exits without waiting for them.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from workflows.chat.thread_jobs import Job

log = logging.getLogger(__name__)

IDLE_S = 30.0
STOP_GRACE_S = 1.0
STOP_EVERY_S = 0.02
LATER_EVERY_S = 0.5  # of one that could not be told yet


class NoThreadFreeError(Exception):
    """Every thread was busy for as long as the function may take; it was not begun."""


class ToolThreads:
    """At most `size` calls at once; those that hang come on top, as many again."""

    def __init__(self, size: int, *, name: str = "tools", idle_s: float = IDLE_S) -> None:
        self._size = size
        self._name = name
        self._idle_s = idle_s
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._threads = 0
        self._idle = 0
        self._abandoned = 0
        self._numbers = 0
        self._closed = False

    @property
    def alive(self) -> int:
        return self._threads

    @property
    def abandoned(self) -> int:
        return self._abandoned

    def close(self) -> None:
        """What waits is never begun; what runs is left to itself."""
        with self._changed:
            self._closed = True
            dropped, self._waiting = list(self._waiting), deque()
            self._changed.notify_all()
        for job in dropped:
            job.hand_over(job.fail, RuntimeError("the tool threads are closed"))

    async def run(self, function: Callable[[], Any], *, name: str, timeout_s: float) -> Any:
        """What `function` returns; it must not raise. TimeoutError after `timeout_s` of work: waiting for a thread
        counts apart, and NoThreadFreeError ends it after as long."""
        job = Job(function, name, asyncio.get_running_loop())
        timer = _Timer(job, timeout_s)
        try:
            self._submit(job)
            return await job.result
        except (asyncio.CancelledError, TimeoutError, NoThreadFreeError):
            self._stop(job)
            raise
        finally:
            timer.cancel()

    def _submit(self, job: Job) -> None:
        with self._changed:
            if self._closed:
                raise RuntimeError("the tool threads are closed")
            self._waiting.append(job)
            if self._idle >= len(self._waiting):
                self._changed.notify()
            else:
                self._start_one()

    def _start_one(self) -> None:
        if self._threads >= self._size + min(self._abandoned, self._size):
            return
        self._numbers += 1
        thread = threading.Thread(target=self._work, name=f"{self._name}_{self._numbers}", daemon=True)
        self._threads += 1
        try:
            thread.start()
        except RuntimeError:  # the system gives no more: those there are must do
            self._threads -= 1
            log.warning("tool_thread_not_started", extra={"threads": self._threads})

    def _work(self) -> None:
        while (job := self._next()) is not None:
            value = job.call()
            if self._over(job):
                job.hand_over(job.deliver, value)
                return
            job.hand_over(job.deliver, value)
            del job, value  # an idle thread holds on to nothing

    def _next(self) -> Job | None:
        """None when this thread has been idle for long enough."""
        with self._changed:
            self._idle += 1
            while not self._waiting:
                if self._closed or not (self._changed.wait(self._idle_s) or self._waiting):
                    self._idle -= 1
                    self._threads -= 1
                    return None
            self._idle -= 1
            job = self._waiting.popleft()
            job.begin()
            return job

    def _over(self, job: Job) -> bool:
        """Whether another thread has taken this one's place."""
        with self._changed:
            job.over = True
            if job.abandoned:
                self._abandoned -= 1
                self._threads -= 1
                if self._waiting:  # for so many that hang that none of them could be replaced
                    self._start_one()
            return job.abandoned

    def _stop(self, job: Job) -> None:
        with self._changed:
            if job.begun_at is None:
                if job in self._waiting:
                    self._waiting.remove(job)
                return
        self._tell(job, time.monotonic() + STOP_GRACE_S)

    def _tell(self, job: Job, until: float) -> None:
        if not job.over:
            job.tell_to_stop()
        if time.monotonic() >= until:
            self._abandon(job)
        if not job.over and not (job.told and job.abandoned):
            job.loop.call_later(LATER_EVERY_S if job.abandoned else STOP_EVERY_S, self._tell, job, until)

    def _abandon(self, job: Job) -> None:
        with self._changed:
            if job.over or job.abandoned:
                return
            job.abandoned = True
            self._abandoned += 1
            if self._waiting:
                self._start_one()
        log.warning("tool_thread_abandoned", extra={"tool": job.name, "abandoned": self._abandoned})


class _Timer:
    """One for waiting and working: whether a thread has begun is looked at when the time is over."""

    def __init__(self, job: Job, timeout_s: float) -> None:
        self._job = job
        self._timeout_s = timeout_s
        self._handle = job.loop.call_later(timeout_s, self._due)

    def cancel(self) -> None:
        self._handle.cancel()

    def _due(self) -> None:
        job = self._job
        left_s = 0.0 if job.begun_at is None else job.begun_at + self._timeout_s - time.monotonic()
        if left_s > 0:
            self._handle = job.loop.call_later(left_s, self._due)
        elif job.begun_at is None:
            job.fail(NoThreadFreeError(f"no thread was free for {self._timeout_s:g} s"))
        else:
            job.fail(TimeoutError())
