"""Thread jobs: one call of a plain function in a thread, which can be interrupted.

The interrupting exception may arrive between any two bytecodes of the thread, so it must never arrive after the call.
Each job has one ticket. The thread takes it when the function has returned, and is safe from then on. If the interrupt
takes it first, the thread waits until the exception has arrived.

A thread is not interrupted where that would block others: while it takes a lock, imports a module, starts a thread or
logs. The interrupt is repeated a moment later. A function that logs all the time is stopped at its next log record.
"""

import asyncio
import contextlib
import ctypes
import functools
import itertools
import logging
import operator
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_LOCK_FUNCTIONS = frozenset({"acquire", "release", "__enter__", "__exit__", "_acquireLock", "_acquire_restore"})
# The modules that call the function.
_CALLING_MODULES = frozenset(
    {"workflows.chat.package_code.invocation", "workflows.chat.package_code.tool_threads", __name__}
)


class ToolStopped(BaseException):
    """This call took longer than it may, or its run was cancelled."""


class ThreadJob:
    """A call for a thread. `started_at` is None until a thread has taken it."""

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
        """Runs in the thread. No exception is raised there after it has returned."""
        value = None
        try:
            value = self._function()
            while not self._take_ticket():
                if self.is_interrupted:
                    time.sleep(0)  # a pending exception is raised after a call like this one
                    break
                time.sleep(0.001)
        except ToolStopped:  # no `contextlib.suppress`: the exception could arrive inside of it
            pass
        _jobs_to_stop.pop(self._thread_id, None)
        return value

    def try_interrupt(self) -> None:
        """Interrupts the thread once, unless that could block others now."""
        frame = sys._current_frames().get(self._thread_id)
        if self.is_interrupted or frame is None:
            return
        instruction, stack = frame.f_lasti, list(_frames_outward(frame))
        if any(map(_is_logging, stack)):
            _stop_at_next_record(self._thread_id, self)
        elif _can_interrupt(frame, stack) and self._take_ticket():
            self.is_interrupted = _interrupt_unmoved(self._thread_id, frame, instruction)
            if not self.is_interrupted:
                self._ticket.append(None)

    def stop_own_thread(self) -> None:
        """Raises ToolStopped, in the job's own thread, unless it imports or starts one."""
        if not any(map(_is_uninterruptible, _frames_outward(sys._getframe()))) and self._take_ticket():
            self.is_interrupted = True
            raise ToolStopped

    def deliver(self, value: Any) -> None:
        if not self.result.done():
            self.result.set_result(value)

    def fail(self, error: Exception) -> None:
        if not self.result.done():
            self.result.set_exception(error)

    def call_on_loop(self, callback: Callable[[Any], None], value: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nothing waits for the result
            self.loop.call_soon_threadsafe(callback, value)

    def _take_ticket(self) -> bool:
        try:
            self._ticket.pop()
        except IndexError:
            return False
        return True


_jobs_to_stop: dict[int, ThreadJob] = {}  # by thread: stopped at their next log record


class _StoppingRecordFactory:
    """Makes log records, and stops a job whose function logs all the time.

    Unlike an interrupt, the exception releases all locks on its way."""

    def __init__(self, make_record: Callable[..., logging.LogRecord]) -> None:
        self._make_record = make_record

    def __call__(self, *args: Any, **options: Any) -> logging.LogRecord:
        job = _jobs_to_stop.get(threading.get_ident())
        if job is not None:
            job.stop_own_thread()
        return self._make_record(*args, **options)


def _stop_at_next_record(thread_id: int, job: ThreadJob) -> None:
    _jobs_to_stop[thread_id] = job
    factory = logging.getLogRecordFactory()
    if not isinstance(factory, _StoppingRecordFactory):
        logging.setLogRecordFactory(_StoppingRecordFactory(factory))


def _interrupt_unmoved(thread_id: int, frame: FrameType, instruction: int) -> bool:
    """Raises ToolStopped in a thread that has not moved; returns whether it has not.

    `instruction` is the last one that was seen in `frame`. CPython switches threads between bytecodes only, and `all`
    runs no bytecode here. So the thread cannot take a lock between the check and the exception."""
    raise_in_thread = functools.partial(
        ctypes.pythonapi.PyThreadState_SetAsyncExc, ctypes.c_ulong(thread_id), ctypes.py_object(ToolStopped)
    )
    current_frame: Iterator[Any] = map(dict.get, map(operator.call, (sys._current_frames,)), (thread_id,))
    steps: Iterator[Any] = itertools.chain(
        map(operator.is_, current_frame, (frame,)),
        map(operator.eq, map(operator.attrgetter("f_lasti"), (frame,)), (instruction,)),
        map(operator.call, (raise_in_thread,)),
    )
    return all(steps)


def _can_interrupt(frame: FrameType, stack: list[FrameType]) -> bool:
    """Refuses an interrupt while the thread takes a lock, imports or starts a thread.

    Other threads that need the same would wait for ever."""
    if _module_name(frame) in _CALLING_MODULES or frame.f_code.co_name in _LOCK_FUNCTIONS:
        return False
    return not any(map(_is_uninterruptible, stack))


def _frames_outward(frame: FrameType | None) -> Iterator[FrameType]:
    """Yields the frame and its callers."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_logging(frame: FrameType) -> bool:
    return _module_name(frame).partition(".")[0] == logging.__name__


def _is_uninterruptible(frame: FrameType) -> bool:
    """Detects an import and the start of a thread.

    Many modules cannot be imported a second time. Until a new thread has begun, CPython 3.11 identifies it by the
    starting thread's id: the new thread would get the exception, and the starting one would wait for it for ever."""
    module = _module_name(frame)
    return module.partition(".")[0] == "importlib" or (module == threading.__name__ and frame.f_code.co_name == "start")


def _module_name(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
