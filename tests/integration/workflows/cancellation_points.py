"""Cancels work at its n-th await, counted over all of its tasks."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any


async def cancel_at(step: int, work: Callable[[], Coroutine[Any, Any, Any]]) -> bool:
    """Returns whether it was cancelled: False when it ended earlier.

    Raises any other error of the work."""
    loop = asyncio.get_running_loop()
    awaits, factory = _AwaitCounter(step), loop.get_task_factory()
    loop.set_task_factory(awaits.task)
    try:
        awaits.whole = loop.create_task(work())
        await asyncio.wait((awaits.whole,))
    finally:
        loop.set_task_factory(factory)
    if awaits.whole.cancelled():
        return True
    awaits.whole.result()
    assert awaits.count < step or awaits.late, "the cancellation was swallowed"
    return False


class _AwaitCounter:
    def __init__(self, step: int) -> None:
        self._step = step
        self.count = 0
        self.late = False  # the work was over already, except for its last task
        self.whole: asyncio.Task[Any] | None = None

    def task(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        ours = "serve" in work.__qualname__ or "handle" in work.__qualname__  # of the server that the test runs
        return asyncio.Task(work if ours else _CountedCoroutine(work, self._count), loop=loop, **options)

    def _count(self) -> None:
        self.count += 1
        if self.count == self._step and self.whole is not None:
            self.late = not self.whole.cancel()


class _CountedCoroutine(Coroutine[Any, Any, Any]):
    """A coroutine that counts its awaits."""

    def __init__(self, work: Coroutine[Any, Any, Any], count: Callable[[], None]) -> None:
        self._work = work
        self._count = count

    def send(self, value: Any) -> Any:
        awaited = self._work.send(value)
        self._count()
        return awaited

    def throw(self, *error: Any) -> Any:
        awaited = self._work.throw(*error)
        self._count()
        return awaited

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._work.__await__()
