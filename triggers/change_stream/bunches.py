"""Bunches: events that have come go to the store together, and those that follow them do not wait for that.

A bunch waits for the earlier ones whose lanes (a document, or a strict trigger) it shares: events of one lane are taken
in the stream's order, others do not wait for each other. Inside a bunch the intake keeps that order.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Hashable, Sequence
from typing import Protocol

from bson import encode

from triggers.change_stream.source import Event
from workers.together import together

BUNCH = 250
AT_ONCE = 2  # commands: one is on its way while the next one is put together


class Intake(Protocol):
    def lanes(self, event: Event) -> Collection[Hashable]:
        """What this event has to wait for: the earlier ones that share one of these with it."""

    async def take(self, events: Sequence[Event]) -> None:
        """When it returns, nothing of the events is left to do. They are given, and taken, in the stream's order."""


class Bunch:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.events: list[Event] = []
        self.lanes: set[Hashable] = set()
        self.bytes = 0
        self.done: asyncio.Future[None] = loop.create_future()

    def add(self, event: Event, lanes: Collection[Hashable], size: int) -> None:
        self.events.append(event)
        self.lanes.update(lanes)
        self.bytes += size


class Bunches:
    """Those that are not finished, the oldest first. The last one may still grow: what comes while others are under
    way gathers in it."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._loop = asyncio.get_running_loop()
        self._unfinished: deque[Bunch] = deque()
        self._waiting: deque[Bunch] = deque()
        self._tasks: dict[asyncio.Task[None], Bunch] = {}
        self._last_of: dict[Hashable, Bunch] = {}
        self._has_failed = False
        self.events = 0
        self.bytes = 0

    def add(self, event: Event) -> int:
        """Its size."""
        lanes, size = self._intake.lanes(event), len(encode(event))
        bunch = self._waiting[-1] if self._waiting else None
        if bunch is None or len(bunch.events) >= BUNCH:
            bunch = Bunch(self._loop)
            self._waiting.append(bunch)
            self._unfinished.append(bunch)
            # Once the reader waits for the server: what has come by then goes together.
            self._loop.call_soon(self._begin)
        bunch.add(event, lanes, size)
        self.events += 1
        self.bytes += size
        return size

    def _begin(self) -> None:
        # Behind one that failed nothing begins: all of it is read again, and must not be overtaken by then.
        while self._waiting and len(self._tasks) < AT_ONCE and not self._has_failed:
            bunch = self._waiting.popleft()
            shared = {id(each): each for lane in bunch.lanes if (each := self._last_of.get(lane)) is not None}
            self._last_of.update(dict.fromkeys(bunch.lanes, bunch))
            task = self._loop.create_task(_after([each.done for each in shared.values()], self._intake, bunch.events))
            self._tasks[task] = bunch
            task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        bunch = self._tasks.pop(task)
        for lane in bunch.lanes:
            if self._last_of.get(lane) is bunch:
                del self._last_of[lane]
        if task.cancelled():
            bunch.done.cancel()
        elif (error := task.exception()) is not None:
            self._has_failed = True
            bunch.done.set_exception(error)
        else:
            bunch.done.set_result(None)
            self._begin()

    async def finish(self, at_most_left: int) -> Event | None:
        """The oldest ones first, until so many events are left: what is finished is without a hole. The newest event
        of it, if there is one, is where one could go on."""
        newest = None
        while self._unfinished and self.events > at_most_left:
            bunch = self._unfinished[0]
            self._begin()
            await asyncio.shield(bunch.done)
            self._unfinished.popleft()
            newest = bunch.events[-1]
            self.events -= len(bunch.events)
            self.bytes -= bunch.bytes
        return newest

    async def end(self) -> None:
        """Nothing is left running, whatever became of it."""
        self._waiting.clear()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for bunch in self._unfinished:
            if bunch.done.done() and not bunch.done.cancelled():
                bunch.done.exception()  # seen; whoever waited for the first one has raised it


async def _after(earlier: Sequence["asyncio.Future[None]"], intake: Intake, events: Sequence[Event]) -> None:
    # What failed before it fails it too: an event must not overtake one that is going to be read again.
    await together(asyncio.shield(each) for each in earlier)
    await intake.take(events)
