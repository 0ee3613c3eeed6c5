"""The event loop of a worker, protected from what packages do in it.

A tool that awaits `asyncio.to_thread` uses the default threads of the loop, and a call that hangs there never frees its
thread. Asyncio has few of them, also resolves host names in them, and waits for all of them at exit: a few hanging
tools would keep the process from new connections to models and MongoDB, and so from handing its runs back.

So packages have many daemon threads, name lookups their own ones, and a SystemExit of one task does not end the loop.
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
PACKAGE_THREADS = 256  # started as needed


class WorkerLoop(asyncio.SelectorEventLoop):
    def __init__(self, *, package_threads: int = PACKAGE_THREADS) -> None:
        super().__init__()
        self._lookups = DaemonThreads(LOOKUP_THREADS, "lookup")
        self.set_default_executor(DaemonThreads(package_threads, "to_thread"))
        self._is_for_one = False

    @override
    def run_forever(self) -> None:
        """Runs on after the SystemExit of a task, which asyncio would let end the loop.

        A coroutine of a package may raise it under `asyncio.wait_for`. The awaiting code gets it; the other runs go on.
        """
        while True:
            try:
                super().run_forever()
            except (KeyboardInterrupt, SystemExit) as error:
                # In the main thread, which gets signals, and with a single task it is meant for the loop.
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
    """A pool of daemon threads, which are not waited for at exit.

    It is a ThreadPoolExecutor since asyncio accepts no other kind.
    """

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
            self._free.release()  # freed before the result is delivered, after which the caller may submit again
            if deliver is not None:
                deliver()
            del call, future, function, deliver  # an idle thread keeps no references

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Shuts down without waiting: hanging calls are abandoned."""
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
