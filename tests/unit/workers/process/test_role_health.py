"""Role health: problems of a loop, of steps, and of a store that does not answer."""

import asyncio
from contextlib import suppress

from workers.process.role_health import LoopWatch, StepWatch, StorePulse, health_report


class FakeClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class FakeLoop:
    """A loop that answers on demand."""

    def __init__(self) -> None:
        self.callbacks: list[object] = []

    def call_soon_threadsafe(self, answer: object) -> None:
        self.callbacks.append(answer)

    def turn(self) -> None:
        asked, self.callbacks = self.callbacks, []
        for answer in asked:
            assert callable(answer)
            answer()


def test_a_loop_counts_as_stalled_while_a_probe_is_unanswered() -> None:
    clock, loop = FakeClock(), FakeLoop()
    watch = LoopWatch(loop, patience_s=30, clock=clock)  # type: ignore[arg-type]  # all it needs of a loop

    assert watch.check() == ()
    clock.now += 31
    assert watch.check() == ("the event loop has stood still for 31 s",)
    assert len(loop.callbacks) == 1
    loop.turn()
    assert watch.check() == ()


async def test_a_step_is_late_only_after_the_pause_it_asked_for() -> None:
    clock = FakeClock()
    steps = StepWatch("tick", patience_s=30, clock=clock)
    assert steps.check() == ["the step tick has not succeeded yet"]

    async def tick() -> float:
        return 60

    await steps.watch("tick", tick)()
    clock.now += 89
    assert steps.check() == []
    clock.now += 2
    assert steps.check() == ["the step tick is late by 31 s"]


async def test_a_step_that_fails_is_no_success() -> None:
    steps = StepWatch("tick")

    async def tick() -> float:
        raise ConnectionError

    with suppress(ConnectionError):
        await steps.watch("tick", tick)()
    assert steps.check()


async def test_a_store_that_answers_again_is_well_again() -> None:
    clock, pings = FakeClock(), asyncio.Queue[None]()
    pulse = StorePulse(pings.get, clock=clock)

    clock.now += 16
    assert pulse.check() == ("MongoDB has not answered for 16 s",)
    beating = asyncio.create_task(pulse.ping_forever())
    pings.put_nowait(None)
    while pulse.check():  # noqa: ASYNC110 -- the pulse has no event
        await asyncio.sleep(0)
    beating.cancel()


def test_the_answer_lists_the_problems() -> None:
    assert health_report(()) == {"status": "ok"}
    assert health_report(("it stands",)) == {"status": "failing", "problems": ["it stands"]}
