"""The memory watch: when a worker trims, when it restarts, and when neither helps."""

import pytest

from workers.process.memory_watch import Advice, advise, resident_bytes
from workers.worker_timings import MemoryTimings


@pytest.mark.parametrize(
    ("resident", "uptime_s", "relieved_s", "advice"),
    [
        (100, 5.0, None, Advice.FINE),
        (100, 5_000.0, 10.0, Advice.FINE),
        (101, 5_000.0, None, Advice.RELIEVE),
        (101, 600.0, 10.0, Advice.START_ANEW),
        (101, 599.0, 10.0, Advice.LIMIT_TOO_LOW),
        (101, 599.0, 60.0, Advice.RELIEVE),
    ],
)
def test_advice(resident: int, uptime_s: float, relieved_s: float | None, advice: Advice) -> None:
    assert advise(MemoryTimings(), resident=resident, limit=100, uptime_s=uptime_s, relieved_s=relieved_s) is advice


def test_this_process_holds_something() -> None:
    assert 10_000_000 < resident_bytes() < 100_000_000_000
