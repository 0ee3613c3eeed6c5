"""The shutdown deadline: the process ends in time, with a code for lost hand-backs."""

import threading
from functools import partial

import pytest

from workers.process.shutdown import CUT_OFF, HANDED_BACK, ShutdownDeadline

impatient_deadline = partial(ShutdownDeadline, exit_delay_s=0.06, idle_s=0.02, check_interval_s=0.005)


class RecordedExit(list[int]):
    def __init__(self) -> None:
        super().__init__()
        self.event = threading.Event()

    def __call__(self, code: int) -> None:
        self.append(code)
        self.event.set()


@pytest.mark.parametrize(("held", "code"), [(0, HANDED_BACK), (2, CUT_OFF)])
def test_a_process_that_hangs_is_ended(held: int, code: int) -> None:
    ended = RecordedExit()
    deadline = impatient_deadline(lambda: held, end=ended)
    deadline.start(grace_s=0)
    assert not ended

    deadline.begin()

    assert ended.event.wait(10)
    assert ended == [code]


def test_a_process_left_alone_exits_with_its_own_code() -> None:
    ended = RecordedExit()
    deadline = impatient_deadline(lambda: 1, end=ended)
    deadline.start(grace_s=0)

    deadline.begin_with_code(70)

    assert ended.event.wait(10)
    assert ended == [70]
