"""Wake-ups: tell the workers that a run is there. Best effort; the reconciler repeats what gets lost.

Publishing happens in one thread of its own with a bounded queue before it, so that a slow or missing
Redis delays nobody who has already made a run durable.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from celery import Celery

from workers.celery import TASK
from workers.landmarks import passed

log = logging.getLogger(__name__)

MAX_WAITING = 10_000
VERSION = 1

Publish = Callable[[str], None]


def celery_publisher(app: Celery) -> Publish:
    def publish(run_id: str) -> None:
        app.send_task(TASK, args=[{"v": VERSION, "run_id": run_id}], ignore_result=True)

    return publish


class Wakeups:
    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._waiting: asyncio.Queue[str] = asyncio.Queue(MAX_WAITING)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="wakeups")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._drain(), name="wakeups")

    def send(self, run_id: str) -> None:
        try:
            self._waiting.put_nowait(run_id)
        except asyncio.QueueFull:
            log.warning("wakeup_left_to_reconciler", extra={"run_id": run_id, "reason": "queue full"})

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
            log.warning("wakeups_left_to_reconciler", extra={"count": self._waiting.qsize()})
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            run_id = await self._waiting.get()
            try:
                await loop.run_in_executor(self._thread, self._publish, run_id)
                passed("published")
            except Exception as error:  # noqa: BLE001 -- the outermost step of this task: a Redis that is full, say, must not end it
                log.warning("wakeup_failed", extra={"run_id": run_id, "error": f"{type(error).__name__}: {error}"})
            finally:
                self._waiting.task_done()
