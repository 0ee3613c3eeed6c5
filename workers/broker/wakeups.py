"""Wake-ups: notify the workers of a run. The reconciler repeats lost ones.

A thread of its own publishes them from a bounded queue, so a slow or missing broker does not delay callers, as their
runs are durable already. All waiting wake-ups are published together.
"""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from workers.broker.publisher import Publish, Publisher
from workers.crash_points import crash_point

log = logging.getLogger(__name__)

MAX_WAITING = 10_000


class Wakeups:
    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._waiting: asyncio.Queue[str] = asyncio.Queue(MAX_WAITING)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="wakeups")
        self._task: asyncio.Task[None] | None = None
        self._in_flight = 0
        self._unsent_log = _UnsentLog()

    def start(self) -> None:
        self._task = asyncio.create_task(self._publish_waiting(), name="wakeups")

    def send(self, run_id: str) -> None:
        try:
            self._waiting.put_nowait(run_id)
        except asyncio.QueueFull:
            self._unsent_log.add(1, "queue full")

    def count_unsent(self) -> int:
        """Counts the wake-ups that are waiting or being published."""
        return self._waiting.qsize() + self._in_flight

    async def wait_until_published(self) -> None:
        """Waits until all wake-ups sent so far are published, or left to the reconciler."""
        await self._waiting.join()

    async def stop(self, *, grace_s: float = 5) -> None:
        if self._task is None:
            return
        try:
            async with asyncio.timeout(grace_s):
                await self.wait_until_published()
        except TimeoutError:
            self._unsent_log.add(self._in_flight + self._waiting.qsize(), "stopped")
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown(wait=False, cancel_futures=True)
        if isinstance(self._publish, Publisher):
            self._publish.close()

    async def _publish_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            # All at once: while the broker does not answer, they cost one timeout together and not one each.
            run_ids = [await self._waiting.get(), *self._take_waiting()]
            self._in_flight = len(run_ids)
            try:
                await loop.run_in_executor(self._thread, self._publish, run_ids)
                self._record_published(run_ids)
            except Exception as error:  # noqa: BLE001 -- the outermost step of this task: no error of a broker may end it
                self._unsent_log.add(len(run_ids), f"{type(error).__name__}: {str(error)[:200]}")
            finally:
                self._in_flight = 0
                for _ in run_ids:
                    self._waiting.task_done()

    def _take_waiting(self) -> list[str]:
        return [self._waiting.get_nowait() for _ in range(self._waiting.qsize())]

    def _record_published(self, run_ids: Sequence[str]) -> None:
        self._unsent_log.clear()
        for _ in run_ids:
            crash_point("published")


class _UnsentLog:
    """Logs one line when publishing begins to fail and one when it works again."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, count: int, reason: str) -> None:
        if self._count == 0:
            log.warning("wakeups_left_to_reconciler", extra={"count": count, "reason": reason})
        self._count += count

    def clear(self) -> None:
        if self._count:
            log.info("wakeups_flow_again", extra={"left_to_reconciler": self._count})
        self._count = 0
