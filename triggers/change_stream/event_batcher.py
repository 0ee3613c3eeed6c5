"""The event batcher: processes events in batches while others are read.

A batch waits for earlier batches that share a lane (a document, or a strict trigger). Events of one lane are processed
in the stream's order; others are concurrent. Within a batch the intake keeps the order.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Hashable, Sequence
from typing import Protocol

from bson import encode

from accounting.infra.aio import gather_all
from triggers.change_stream.stream_source import Event

MAX_BATCH_EVENTS = 250
MAX_CONCURRENT_BATCHES = 2  # one command is in flight while the next one is built


class EventIntake(Protocol):
    def lanes(self, event: Event) -> Collection[Hashable]:
        """Returns the lanes of an event: it waits for earlier events that share one."""

    async def process(self, events: Sequence[Event]) -> None:
        """Processes events in the stream's order. When it returns, their runs are durable."""


class EventBatch:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.events: list[Event] = []
        self.lanes: set[Hashable] = set()
        self.bytes = 0
        self.done: asyncio.Future[None] = loop.create_future()

    def add(self, event: Event, lanes: Collection[Hashable], size: int) -> None:
        self.events.append(event)
        self.lanes.update(lanes)
        self.bytes += size


class EventBatcher:
    """Holds the unfinished batches, oldest first.

    New events join the last one while others are in progress.
    """

    def __init__(self, intake: EventIntake) -> None:
        self._intake = intake
        self._loop = asyncio.get_running_loop()
        self._unfinished: deque[EventBatch] = deque()
        self._queued: deque[EventBatch] = deque()
        self._tasks: dict[asyncio.Task[None], EventBatch] = {}
        self._last_in_lane: dict[Hashable, EventBatch] = {}
        self._has_failed = False
        self.events = 0
        self.bytes = 0

    def add(self, event: Event) -> int:
        """Adds an event, and returns its size in bytes."""
        lanes, size = self._intake.lanes(event), len(encode(event))
        batch = self._queued[-1] if self._queued else None
        if batch is None or len(batch.events) >= MAX_BATCH_EVENTS:
            batch = EventBatch(self._loop)
            self._queued.append(batch)
            self._unfinished.append(batch)
            # Runs when the reader waits for the server: all events read by then form one batch.
            self._loop.call_soon(self._start_batches)
        batch.add(event, lanes, size)
        self.events += 1
        self.bytes += size
        return size

    def _start_batches(self) -> None:
        # Nothing starts behind a failed batch: its events are read again, and must not be overtaken.
        while self._queued and len(self._tasks) < MAX_CONCURRENT_BATCHES and not self._has_failed:
            batch = self._queued.popleft()
            earlier = {id(last): last for lane in batch.lanes if (last := self._last_in_lane.get(lane)) is not None}
            self._last_in_lane.update(dict.fromkeys(batch.lanes, batch))
            task = self._loop.create_task(
                _process_after([last.done for last in earlier.values()], self._intake, batch.events)
            )
            self._tasks[task] = batch
            task.add_done_callback(self._on_batch_done)

    def _on_batch_done(self, task: "asyncio.Task[None]") -> None:
        batch = self._tasks.pop(task)
        for lane in batch.lanes:
            if self._last_in_lane.get(lane) is batch:
                del self._last_in_lane[lane]
        if task.cancelled():
            batch.done.cancel()
        elif (error := task.exception()) is not None:
            self._has_failed = True
            batch.done.set_exception(error)
        else:
            batch.done.set_result(None)
            self._start_batches()

    async def finish(self, max_left: int) -> Event | None:
        """Waits for the oldest batches until at most `max_left` events remain.

        The finished events have no gap. Returns the newest of them, behind which the stream could resume.
        """
        newest = None
        while self._unfinished and self.events > max_left:
            batch = self._unfinished[0]
            self._start_batches()
            await asyncio.shield(batch.done)
            self._unfinished.popleft()
            newest = batch.events[-1]
            self.events -= len(batch.events)
            self.bytes -= batch.bytes
        return newest

    async def close(self) -> None:
        """Waits for all running batches, and ignores their results."""
        self._queued.clear()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for batch in self._unfinished:
            if batch.done.done() and not batch.done.cancelled():
                batch.done.exception()  # retrieved, so that asyncio logs no warning; finish() raised the first one


async def _process_after(
    earlier: Sequence["asyncio.Future[None]"], intake: EventIntake, events: Sequence[Event]
) -> None:
    # A failed earlier batch fails this one: an event must not overtake one that will be read again.
    await gather_all(asyncio.shield(done) for done in earlier)
    await intake.process(events)
