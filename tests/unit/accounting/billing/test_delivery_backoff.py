"""Delivery backoff: ten tries in three days, Retry-After, and growing pauses."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounting.billing.delivery_backoff import DELAYS_S, DeliveryBackoff
from accounting.infra.retry_after import parse_retry_after

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PACE = DeliveryBackoff()


def test_a_batch_is_tried_ten_times_in_three_days_and_then_dead() -> None:
    pauses = [PACE.retry_delay_s(failures, retry_after_s=None, chance=0.0) for failures in range(1, 12)]

    assert pauses == [5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400, None, None]
    assert sum(DELAYS_S) == 75 * 3600 + 35 * 60 + 5


@given(failures=st.integers(1, 9), chance=st.floats(0, 1))
def test_chance_spreads_a_pause_by_a_fifth_and_never_shortens_it(failures: int, chance: float) -> None:
    pause_s = PACE.retry_delay_s(failures, retry_after_s=None, chance=chance)

    assert pause_s is not None
    assert DELAYS_S[failures - 1] <= pause_s <= DELAYS_S[failures - 1] * 1.2


@pytest.mark.parametrize(("asked_s", "pause_s"), [(None, 5), (0.0, 5), (4.0, 5), (120.0, 120), (10.0**9, 86_400)])
def test_a_requested_delay_is_granted_up_to_a_day(asked_s: float | None, pause_s: float) -> None:
    assert PACE.retry_delay_s(1, retry_after_s=asked_s, chance=0.0) == pause_s


def test_asking_for_later_gives_no_more_tries() -> None:
    assert PACE.retry_delay_s(10, retry_after_s=120.0, chance=0.0) is None


def test_an_endpoint_is_spared_twice_as_long_each_time_up_to_a_minute() -> None:
    spared = [PACE.endpoint_pause_s(failures, retry_after_s=None) for failures in (1, 2, 3, 4, 5, 6, 7, 8, 10_000)]

    assert spared == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert all(one <= other for one, other in pairwise(spared))


@pytest.mark.parametrize(("asked_s", "spared_s"), [(0.5, 1), (30.0, 30), (7200.0, 3600)])
def test_an_endpoint_that_asks_for_less_is_spared_so_long_within_an_hour(asked_s: float, spared_s: float) -> None:
    assert PACE.endpoint_pause_s(1, retry_after_s=asked_s) == spared_s


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("", None),
        ("120", 120),
        (" 7 ", 7),
        ("0", 0),
        ("-1", None),
        ("1.5", 1.5),
        ("9" * 400, None),
        ("soon", None),
        ("Sun, 01 Mar 2026 12:00:30 GMT", 30),
        ("Sun, 01 Mar 2026 11:00:30 GMT", 0),
        ("Sun, 01 Mar 2026 12:00:30 -0000", 30),
        ("Sun, 01 Mar 99999 12:00:30 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str, seconds: float | None) -> None:
    assert parse_retry_after(header, now=NOW) == seconds


@given(st.text())
def test_no_header_is_too_odd(header: str) -> None:
    seconds = parse_retry_after(header, now=NOW)

    assert seconds is None or seconds >= 0
