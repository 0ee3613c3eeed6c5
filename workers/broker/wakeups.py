"""Wake-ups: tell the workers that a run is there. Best effort; the reconciler repeats what gets lost.

Publishing happens in one thread of its own with a bounded queue before it, so that a slow or missing
broker delays nobody who has already made a run durable. What waits is published together.
"""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from workers.broker.publisher import VERSION, Publish, Publisher, celery_publisher
from workers.landmarks import passed

__all__ = ["VERSION", "Publish", "Wakeups", "celery_publisher"]

log = logging.getLogger(__name__)

MAX_WAITING = 10_000


class Wakeups:
    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._waiting: asyncio.Queue[str] = asyncio.Queue(MAX_WAITING)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="wakeups")
        self._task: asyncio.Task[None] | None = None
        self._in_hand = 0
        self._left = _LeftToReconciler()

    def start(self) -> None:
        self._task = asyncio.create_task(self._drain(), name="wakeups")

    def send(self, run_id: str) -> None:
        try:
            self._waiting.put_nowait(run_id)
        except asyncio.QueueFull:
            self._left.more(1, "queue full")

    def unsent(self) -> int:
        """How many wait here for their turn to be published, or are being published."""
        return self._waiting.qsize() + self._in_hand

    async def drained(self) -> None:
        """Until everything that was sent so far has been published, or left to the reconciler."""
        await self._waiting.join()

    async def stop(self, *, grace_s: float = 5) -> None:
        if self._task is None:
            return
        try:
            async with asyncio.timeout(grace_s):
                await self.drained()
        except TimeoutError:
            self._left.more(self._in_hand + self._waiting.qsize(), "stopped")
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown(wait=False, cancel_futures=True)
        if isinstance(self._publish, Publisher):
            self._publish.close()

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            # Everything at once: while the broker does not answer, what waits costs one timeout and not one each.
            run_ids = [await self._waiting.get(), *self._rest()]
            self._in_hand = len(run_ids)
            try:
                await loop.run_in_executor(self._thread, self._publish, run_ids)
                self._passed(run_ids)
            except Exception as error:  # noqa: BLE001 -- the outermost step of this task: a Redis that is full, say, must not end it
                self._left.more(len(run_ids), f"{type(error).__name__}: {str(error)[:200]}")
            finally:
                self._in_hand = 0
                for _ in run_ids:
                    self._waiting.task_done()

    def _rest(self) -> list[str]:
        return [self._waiting.get_nowait() for _ in range(self._waiting.qsize())]

    def _passed(self, run_ids: Sequence[str]) -> None:
        self._left.no_more()
        for _ in run_ids:
            passed("published")


class _LeftToReconciler:
    """One line when wake-ups begin to be left and one when they flow again, however many they are."""

    def __init__(self) -> None:
        self._count = 0

    def more(self, count: int, reason: str) -> None:
        if self._count == 0:
            log.warning("wakeups_left_to_reconciler", extra={"count": count, "reason": reason})
        self._count += count

    def no_more(self) -> None:
        if self._count:
            log.info("wakeups_flow_again", extra={"left_to_reconciler": self._count})
        self._count = 0
