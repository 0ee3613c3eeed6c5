"""The event loop in which packages run: what they leave hanging in threads holds up nobody else, nor the exit, and
what they raise ends none but their own.

A tool that awaits `asyncio.to_thread` uses the loop's default threads, and a call that hangs there never gives its
thread back. Asyncio has a handful of them, looks names up in the same and waits for all of them in the end: a few tools
that hang would keep the process from every new connection, to models and to MongoDB, and so from giving its runs back.
"""

import asyncio
import functools
import logging
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, TypeVar

from typing_extensions import override

from workflows.chat.package_code.forked_copies import exit_if_forked

log = logging.getLogger(__name__)

T = TypeVar("T")

LOOKUP_THREADS = 8
PACKAGE_THREADS = 256  # made as they are needed


class WorkerLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._lookups = DaemonThreads(LOOKUP_THREADS, "lookup")
        self.set_default_executor(DaemonThreads(PACKAGE_THREADS, "to_thread"))
        self._is_for_one = False

    @override
    def run_forever(self) -> None:
        """Asyncio would end it with the SystemExit of any task, such as one that a package's coroutine makes by
        `asyncio.wait_for`. Whoever awaits that task hears of it; the runs beside it go on."""
        while True:
            try:
                super().run_forever()
            except (KeyboardInterrupt, SystemExit) as error:
                # Where signals arrive, or where one task is all there is, it is meant for the loop.
                if self._is_for_one or threading.current_thread() is threading.main_thread():
                    raise
                log.warning("loop_goes_on", extra={"error": type(error).__name__}, exc_info=error)
            else:
                return

    @override
    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        self._is_for_one = True
        try:
            return super().run_until_complete(future)
        finally:
            self._is_for_one = False

    @override
    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        return await self.run_in_executor(self._lookups, functools.partial(socket.getaddrinfo, host, port, **options))

    @override
    def close(self) -> None:
        self._lookups.shutdown()
        super().close()


class DaemonThreads(ThreadPoolExecutor):
    """Asyncio takes no other kind of executor, and the threads of that kind are waited for at exit."""

    def __init__(self, size: int, name: str) -> None:
        super().__init__(1)
        self._size = size
        self._name = name
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._free = threading.Semaphore(0)
        self._started = 0
        self._starting = threading.Lock()

    @override
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        self._calls.put((future, functools.partial(fn, *args, **kwargs)))
        if not self._free.acquire(blocking=False):
            self._start_one()
        return future

    def _start_one(self) -> None:
        with self._starting:
            if self._started < self._size:
                self._started += 1
                threading.Thread(target=self._work, name=f"{self._name}_{self._started}", daemon=True).start()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            future, function = call
            deliver = _run_call(future, function) if future.set_running_or_notify_cancel() else None
            self._free.release()  # before anybody hears of the result, and calls again
            if deliver is not None:
                deliver()
            del call, future, function, deliver  # an idle thread holds on to nothing

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Never waits: what hangs is left to itself."""
        for _ in range(self._started):
            self._calls.put(None)


def _run_call(future: "Future[Any]", function: Callable[[], Any]) -> Callable[[], None]:
    pid = os.getpid()
    try:
        return functools.partial(future.set_result, function())
    except BaseException as error:  # noqa: BLE001 -- raised again where it is awaited
        return functools.partial(future.set_exception, error)
    finally:
        exit_if_forked(pid)
