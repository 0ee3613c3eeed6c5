"""The position that is saved is never ahead of what is durable."""

import asyncio
from collections.abc import Collection, Hashable, Sequence
from typing import Any

import pytest
from bson import Timestamp

from triggers.change_stream.resume_token_store import StreamPosition
from triggers.change_stream.stream_session import MAX_SAVE_INTERVAL_S, StreamSession

Event = dict[str, Any]


def event(n: int) -> Event:
    return {"_id": {"_data": f"{n:04d}"}, "operationType": "insert", "clusterTime": Timestamp(1_700_000_000 + n, 1)}


class FakeStream:
    """A stream of so many events, and an intake that makes some of them durable only later."""

    def __init__(self, events: int, *, pending: int) -> None:
        self.coming = [event(n) for n in range(events)]
        self.pending = pending
        self.let_go = asyncio.Event()
        self.durable: set[int] = set()
        self.saved: list[int] = []
        self.resume_token: Any = {"_data": "start"}
        self.ended = asyncio.Event()
        self.now = 0.0

    def lanes(self, event: Event) -> Collection[Hashable]:  # noqa: ARG002 -- the protocol's
        return ()

    async def process(self, events: Sequence[Event]) -> None:
        numbers = {int(each["_id"]["_data"]) for each in events}
        if self.pending in numbers:
            await self.let_go.wait()
        self.durable |= numbers

    async def next_event(self) -> Event | None:
        await asyncio.sleep(0)
        if not self.coming:
            self.ended.set()
            return None
        self.resume_token = self.coming[0]["_id"]
        return self.coming.pop(0)

    async def save(self, position: StreamPosition) -> None:
        assert position.token is not None
        upto = int(position.token["_data"])
        self.saved.append(upto)
        assert set(range(upto + 1)) <= self.durable, f"{upto} is saved before all up to it is durable"

    def reading(self) -> StreamSession:
        position = StreamPosition({"_data": "start"}, None)
        stream: Any = self
        return StreamSession(
            stream,
            position,
            intake=self,
            save=self.save,
            report_lag=lambda _: None,
            idle_save_interval_s=1000,
            clock=lambda: self.now,
        )


@pytest.mark.parametrize("late_at", [None, 30, 45])
@pytest.mark.parametrize("held", [0, 20, 49])
async def test_no_position_is_saved_before_all_events_up_to_it_are_durable(held: int, late_at: int | None) -> None:
    """Whether it is time to save in the middle, or everything has been read."""
    bed = FakeStream(50, pending=held)

    async def next_event() -> Event | None:
        if late_at is not None and len(bed.coming) <= 50 - late_at:
            bed.now += MAX_SAVE_INTERVAL_S
        return await bed.next_event()

    following = asyncio.create_task(
        bed.reading().follow(next_event, should_continue=lambda: not (bed.ended.is_set() and 49 in bed.saved))
    )
    for _ in range(300):
        await asyncio.sleep(0)
    assert max(bed.saved, default=-1) < held

    bed.let_go.set()
    await following

    assert bed.saved == sorted(bed.saved)
    assert bed.saved[-1] == 49
