"""Events go to the store together, and what fails loses nothing."""

import asyncio
from collections.abc import Collection, Hashable, Sequence
from typing import Any

import pytest

from triggers.change_stream.event_batcher import MAX_BATCH_EVENTS, EventBatcher

Event = dict[str, Any]


class RecordingIntake:
    """Processes events once the test allows it."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go_on = asyncio.Event()
        self.fails_at: int | None = None

    def lanes(self, event: Event) -> Collection[Hashable]:
        return (event["lane"],)

    async def process(self, events: Sequence[Event]) -> None:
        numbers = [event["n"] for event in events]
        self.batches.append(numbers)
        await self.go_on.wait()
        if self.fails_at in numbers:
            raise ConnectionError("away")


def event(n: int, *, lane: int | None = None) -> Event:
    return {"n": n, "lane": n if lane is None else lane}


async def let_tasks_run() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_what_has_come_by_the_time_the_reader_waits_goes_together() -> None:
    desk = RecordingIntake()
    bunches = EventBatcher(desk)
    for n in range(5):
        bunches.add(event(n))
    await let_tasks_run()
    for n in range(5, 8):
        bunches.add(event(n))
    await let_tasks_run()
    assert desk.batches == [[0, 1, 2, 3, 4], [5, 6, 7]]

    bunches.add(event(8))  # two are on their way: it waits, and gathers what comes
    bunches.add(event(9))
    await let_tasks_run()
    assert len(desk.batches) == 2
    desk.go_on.set()
    newest = await bunches.finish(0)

    assert desk.batches[2:] == [[8, 9]]
    assert newest == event(9)
    assert (bunches.events, bunches.bytes) == (0, 0)


async def test_events_of_one_lane_wait_for_the_earlier_ones_and_others_do_not() -> None:
    desk = RecordingIntake()
    bunches = EventBatcher(desk)
    bunches.add(event(1, lane=7))
    await let_tasks_run()
    bunches.add(event(2, lane=7))
    await let_tasks_run()
    assert desk.batches == [[1]]

    desk.go_on.set()
    await bunches.finish(0)

    assert desk.batches == [[1], [2]]


async def test_a_batch_is_bounded_and_the_oldest_events_finish_first() -> None:
    desk = RecordingIntake()
    desk.go_on.set()
    bunches = EventBatcher(desk)
    for n in range(MAX_BATCH_EVENTS + 10):
        bunches.add(event(n))

    newest = await bunches.finish(10)

    assert newest == event(MAX_BATCH_EVENTS - 1)
    assert bunches.events == 10
    assert await bunches.finish(0) == event(MAX_BATCH_EVENTS + 9)


async def test_what_fails_is_raised_and_neither_its_lane_nor_what_waits_is_taken() -> None:
    desk = RecordingIntake()
    desk.fails_at = 1
    bunches = EventBatcher(desk)
    bunches.add(event(1, lane=7))
    await let_tasks_run()
    bunches.add(event(2, lane=7))
    await let_tasks_run()
    bunches.add(event(3))
    desk.go_on.set()

    with pytest.raises(ConnectionError):
        await bunches.finish(0)
    await bunches.close()

    assert desk.batches == [[1]]


async def test_an_event_after_an_unnoticed_failure_does_not_overtake_it() -> None:
    desk = RecordingIntake()
    desk.fails_at = 1
    desk.go_on.set()
    bunches = EventBatcher(desk)
    bunches.add(event(1, lane=7))
    await let_tasks_run()
    bunches.add(event(2, lane=7))
    bunches.add(event(3))
    await let_tasks_run()

    with pytest.raises(ConnectionError):
        await bunches.finish(0)
    await bunches.close()

    assert desk.batches == [[1]]
