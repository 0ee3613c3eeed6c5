"""Thread jobs: one call of a plain function in a thread, which can be told to stop while it is under way.

The exception that tells it may be raised between any two steps of a thread, so that it must never come when the call
is over: whoever takes the job's only ticket decides. The thread takes it when the function has returned, and is safe
from then on; who tells takes it before, and then the thread waits for the exception to have come.
"""

import asyncio
import contextlib
import ctypes
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


class ToolStopped(BaseException):
    """This call took longer than it may, or its run was cancelled."""


class ThreadJob:
    """`begun_at` is None until a thread has taken it."""

    def __init__(self, function: Callable[[], Any], name: str, loop: asyncio.AbstractEventLoop) -> None:
        self.name = name
        self.loop = loop
        self.result: asyncio.Future[Any] = loop.create_future()
        self.started_at: float | None = None
        self.is_over = False
        self.is_abandoned = False
        self._function = function
        self._thread_id = 0
        self._ticket = [None]
        self.is_interrupted = False

    def mark_started(self) -> None:
        self._thread_id, self.started_at = threading.get_ident(), time.monotonic()

    def run_function(self) -> Any:
        """In its thread. When this has returned, nothing is raised in the thread any more."""
        value, safe = None, False
        try:
            value = self._function()
            safe = self._take_ticket()
            if not safe:
                while not self.is_interrupted:
                    time.sleep(0.001)
                time.sleep(0)  # what is pending is raised after a step like this one
        except ToolStopped:
            pass
        if not safe:
            _release_logging_locks()
        return value

    def try_interrupt(self) -> None:
        """Once, and not in a moment when that would harm others: whether it is told then says `told`."""
        if not self.is_interrupted and self._can_interrupt() and self._take_ticket():
            stopped = ctypes.py_object(ToolStopped)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread_id), stopped)
            self.is_interrupted = True

    def deliver(self, value: Any) -> None:
        if not self.result.done():
            self.result.set_result(value)

    def fail(self, error: Exception) -> None:
        if not self.result.done():
            self.result.set_exception(error)

    def call_on_loop(self, callback: Callable[[Any], None], value: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self.loop.call_soon_threadsafe(callback, value)

    def _take_ticket(self) -> bool:
        try:
            self._ticket.pop()
        except IndexError:
            return False
        return True

    def _can_interrupt(self) -> bool:
        """Not while it takes a lock, imports or starts a thread: others, who need the same, would wait for ever."""
        frame = sys._current_frames().get(self._thread_id)
        if frame is None or _module_name(frame) in _CALLING_MODULES:
            return False
        if frame.f_code.co_name in _LOCK_FUNCTIONS and _module_name(frame) != logging.__name__:
            return False
        return not any(map(_is_uninterruptible, _frames_outward(frame)))


def _frames_outward(frame: FrameType | None) -> Iterator[FrameType]:
    """And the frame itself."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_uninterruptible(frame: FrameType) -> bool:
    """Many modules cannot be imported a second time. Until a thread has begun, CPython 3.11 knows it by the id of who
    starts it: the new one would get the exception, and who starts it would wait for it for ever, maybe with a lock."""
    module = _module_name(frame)
    return module.partition(".")[0] == "importlib" or (module == threading.__name__ and frame.f_code.co_name == "start")


def _module_name(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _release_logging_locks() -> None:
    """The thread is out of all that it called, so whatever it still holds was left behind between taking a lock and the
    `try` that gives it back. Whoever floods the log is nearly always there, and all others log too."""
    handlers = [reference() for reference in logging._handlerList]  # type: ignore[attr-defined]  # there is no other
    for lock in (logging._lock, *(each.lock for each in handlers if each is not None)):  # type: ignore[attr-defined]  # no API
        while lock is not None and lock._is_owned():
            lock.release()


_LOCK_FUNCTIONS = frozenset({"acquire", "release", "__enter__", "__exit__", "_acquireLock", "_acquire_restore"})
_CALLING_MODULES = frozenset(
    {"workflows.chat.package_code.invocation", "workflows.chat.package_code.tool_threads", __name__}
)  # what calls the function
