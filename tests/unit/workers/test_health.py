"""Health: what is wrong with a loop, with the steps of a role, and with a store that is silent."""

import asyncio
from contextlib import suppress

from workers.process.health import LoopWatch, Steps, StorePulse, mapping_of


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Loop:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def call_soon_threadsafe(self, answer: object) -> None:
        self.asked.append(answer)

    def turn(self) -> None:
        asked, self.asked = self.asked, []
        for answer in asked:
            assert callable(answer)
            answer()


def test_a_loop_stands_still_for_as_long_as_it_owes_an_answer() -> None:
    clock, loop = Clock(), Loop()
    watch = LoopWatch(loop, patience_s=30, clock=clock)  # type: ignore[arg-type]  # all it needs of a loop

    assert watch.look() == ()
    clock.now += 31
    assert watch.look() == ("the event loop has stood still for 31 s",)
    assert len(loop.asked) == 1
    loop.turn()
    assert watch.look() == ()


async def test_a_step_is_late_only_after_the_pause_it_asked_for() -> None:
    clock = Clock()
    steps = Steps("tick", patience_s=30, clock=clock)
    assert steps.look() == ["the step tick has not succeeded yet"]

    async def tick() -> float:
        return 60

    await steps.watched("tick", tick)()
    clock.now += 89
    assert steps.look() == []
    clock.now += 2
    assert steps.look() == ["the step tick is late by 31 s"]


async def test_a_step_that_fails_is_no_success() -> None:
    steps = Steps("tick")

    async def tick() -> float:
        raise ConnectionError

    with suppress(ConnectionError):
        await steps.watched("tick", tick)()
    assert steps.look()


async def test_a_store_that_answers_again_is_well_again() -> None:
    clock, pings = Clock(), asyncio.Queue[None]()
    pulse = StorePulse(pings.get, clock=clock)

    clock.now += 16
    assert pulse.look() == ("MongoDB has not answered for 16 s",)
    beating = asyncio.create_task(pulse.beat())
    pings.put_nowait(None)
    while pulse.look():  # noqa: ASYNC110 -- the pulse has no event
        await asyncio.sleep(0)
    beating.cancel()


def test_the_answer_says_which() -> None:
    assert mapping_of(()) == {"status": "ok"}
    assert mapping_of(("it stands",)) == {"status": "failing", "problems": ["it stands"]}
