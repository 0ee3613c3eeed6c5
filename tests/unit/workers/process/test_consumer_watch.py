"""The consumer watch: which signs prove that messages are taken, and which do not."""

from dataclasses import replace
from queue import Empty
from types import SimpleNamespace
from typing import Any

import pytest

from workers.process.consumer_watch import ConsumerStatus, ConsumerWatch, find_problems, find_stuck_problems
from workers.worker_timings import ConsumerTimings

TIMINGS = ConsumerTimings()

WELL = ConsumerStatus(is_connected=True, since_tick_s=1.0, since_answer_s=0.5, since_take_s=0.0)


def test_one_that_ticks_and_is_answered_consumes() -> None:
    assert find_problems(WELL, TIMINGS) == []
    assert (
        find_problems(replace(WELL, since_tick_s=None, since_answer_s=None), TIMINGS) == []
    )  # a transport that gives neither sign


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"is_connected": False}, "not connected"),
        ({"since_tick_s": 16.0}, "stood still for 16 s"),
        ({"since_answer_s": 11.0}, "has not answered the consumer for 11 s"),
        ({"since_take_s": 16.0}, "has taken no waiting message for 16 s"),
    ],
)
def test_each_sign_alone_is_enough(changed: dict[str, Any], word: str) -> None:
    problems = find_problems(replace(WELL, **changed), TIMINGS)

    assert len(problems) == 1
    assert word in problems[0]


def test_a_thread_that_waits_for_a_broker_is_not_stuck() -> None:
    assert find_stuck_problems(replace(WELL, is_connected=False, since_tick_s=1_000.0), TIMINGS) == ()
    assert find_stuck_problems(replace(WELL, since_tick_s=1_000.0), TIMINGS)


class Consumer:
    """The part of the Celery consumer that the watch uses."""

    def __init__(self, slots: int) -> None:
        self.now = 0.0
        self.waiting: list[str] = []
        self.controller = SimpleNamespace()
        self.pool = SimpleNamespace(num_processes=slots)
        self.hub = object()
        self.handlers: dict[str, Any] = {"BRPOP": self.read}
        self.task_consumer = SimpleNamespace(channel=SimpleNamespace(handlers=self.handlers))

    def read(self) -> str:
        if not self.waiting:
            raise Empty
        return self.waiting.pop()


@pytest.mark.parametrize("waiting", [[], ["a message"]])
def test_every_answer_of_the_broker_counts_also_that_there_is_nothing(waiting: list[str]) -> None:
    consumer = Consumer(slots=1)
    watch = ConsumerWatch(lambda: consumer.now)
    watch.on_connected(consumer)
    consumer.now, consumer.waiting = 8.0, list(waiting)
    assert watch.status().since_answer_s == 8.0

    try:
        assert consumer.handlers["BRPOP"]() == "a message"
    except Empty:
        assert not waiting

    assert watch.status().since_answer_s == 0.0


def test_a_consumer_without_room_fetches_nothing_and_needs_no_proof() -> None:
    consumer = Consumer(slots=0)
    watch = ConsumerWatch(lambda: consumer.now)
    watch.on_connected(consumer)
    consumer.now = 60.0

    watch.on_tick()

    assert find_problems(watch.status(), TIMINGS) == []
