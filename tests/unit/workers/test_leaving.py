"""The shutdown deadline: the process ends in time, with a code for lost hand-backs."""

import threading

import pytest

from workers.process.shutdown import CUT_OFF, HANDED_BACK, ShutdownDeadline


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"AFTER_GRACE_S": 0.06, "IDLE_S": 0.02, "LOOK_EVERY_S": 0.005}.items():
        monkeypatch.setattr(f"workers.process.shutdown.{name}", seconds)


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
    leaving = ShutdownDeadline(lambda: held, end=ended)
    leaving.start(grace_s=0)
    assert not ended

    leaving.begin()

    assert ended.event.wait(10)
    assert ended == [code]


def test_a_process_left_alone_exits_with_its_own_code() -> None:
    ended = RecordedExit()
    leaving = ShutdownDeadline(lambda: 1, end=ended)
    leaving.start(grace_s=0)

    leaving.begin_with_code(70)

    assert ended.event.wait(10)
    assert ended == [70]
