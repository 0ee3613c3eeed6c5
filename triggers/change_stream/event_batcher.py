"""Bunches: events that have come go to the store together, and those that follow them do not wait for that.

A bunch waits for the earlier ones whose lanes (a document, or a strict trigger) it shares: events of one lane are taken
in the stream's order, others do not wait for each other. Inside a bunch the intake keeps that order.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Hashable, Sequence
from typing import Protocol

from bson import encode

from accounting.infra.aio import gather_all
from triggers.change_stream.stream_source import Event

MAX_BATCH_EVENTS = 250
MAX_CONCURRENT_BATCHES = 2  # commands: one is on its way while the next one is put together


class EventIntake(Protocol):
    def lanes(self, event: Event) -> Collection[Hashable]:
        """What this event has to wait for: the earlier ones that share one of these with it."""

    async def process(self, events: Sequence[Event]) -> None:
        """When it returns, nothing of the events is left to do. They are given, and taken, in the stream's order."""


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
    """Those that are not finished, the oldest first. The last one may still grow: what comes while others are under
    way gathers in it."""

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
        """Its size."""
        lanes, size = self._intake.lanes(event), len(encode(event))
        bunch = self._queued[-1] if self._queued else None
        if bunch is None or len(bunch.events) >= MAX_BATCH_EVENTS:
            bunch = EventBatch(self._loop)
            self._queued.append(bunch)
            self._unfinished.append(bunch)
            # Once the reader waits for the server: what has come by then goes together.
            self._loop.call_soon(self._start_batches)
        bunch.add(event, lanes, size)
        self.events += 1
        self.bytes += size
        return size

    def _start_batches(self) -> None:
        # Behind one that failed nothing begins: all of it is read again, and must not be overtaken by then.
        while self._queued and len(self._tasks) < MAX_CONCURRENT_BATCHES and not self._has_failed:
            bunch = self._queued.popleft()
            shared = {id(each): each for lane in bunch.lanes if (each := self._last_in_lane.get(lane)) is not None}
            self._last_in_lane.update(dict.fromkeys(bunch.lanes, bunch))
            task = self._loop.create_task(
                _process_after([each.done for each in shared.values()], self._intake, bunch.events)
            )
            self._tasks[task] = bunch
            task.add_done_callback(self._on_batch_done)

    def _on_batch_done(self, task: "asyncio.Task[None]") -> None:
        bunch = self._tasks.pop(task)
        for lane in bunch.lanes:
            if self._last_in_lane.get(lane) is bunch:
                del self._last_in_lane[lane]
        if task.cancelled():
            bunch.done.cancel()
        elif (error := task.exception()) is not None:
            self._has_failed = True
            bunch.done.set_exception(error)
        else:
            bunch.done.set_result(None)
            self._start_batches()

    async def finish(self, max_left: int) -> Event | None:
        """The oldest ones first, until so many events are left: what is finished is without a hole. The newest event
        of it, if there is one, is where one could go on."""
        newest = None
        while self._unfinished and self.events > max_left:
            bunch = self._unfinished[0]
            self._start_batches()
            await asyncio.shield(bunch.done)
            self._unfinished.popleft()
            newest = bunch.events[-1]
            self.events -= len(bunch.events)
            self.bytes -= bunch.bytes
        return newest

    async def close(self) -> None:
        """Nothing is left running, whatever became of it."""
        self._queued.clear()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for bunch in self._unfinished:
            if bunch.done.done() and not bunch.done.cancelled():
                bunch.done.exception()  # seen; whoever waited for the first one has raised it


async def _process_after(
    earlier: Sequence["asyncio.Future[None]"], intake: EventIntake, events: Sequence[Event]
) -> None:
    # What failed before it fails it too: an event must not overtake one that is going to be read again.
    await gather_all(asyncio.shield(each) for each in earlier)
    await intake.process(events)
