"""Start rates: the number of free starts."""

import pytest

from workers.store.rate import Rate
from workers.store.start_rate_store import free_starts


@pytest.mark.parametrize(
    ("rate", "ahead_s", "free"),
    [
        (Rate(600, 60), 0, 11),
        (Rate(600, 60), -3600, 11),
        (Rate(600, 60), 0.95, 1),
        (Rate(600, 60), 1.05, 0),
        (Rate(1, 60), 0, 1),
        (Rate(1, 60), 0.5, 1),
        (Rate(1, 60), 59, 0),
        (Rate(60, 60), 0, 2),
    ],
)
def test_one_start_may_come_a_second_early(rate: Rate, ahead_s: float, free: int) -> None:
    assert free_starts(ahead_s, rate) == free


def test_an_older_slower_rate_delays_no_run() -> None:
    assert free_starts(3600, Rate(10, 1)) == free_starts(1.1, Rate(10, 1)) == 0
