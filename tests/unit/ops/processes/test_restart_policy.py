import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.processes.restart_policy import RestartPolicy


@pytest.mark.parametrize(("deaths", "delay_s"), [(1, 0.5), (2, 1.0), (3, 2.0), (6, 16.0), (7, 30.0), (10_000, 30.0)])
def test_delay_doubles_up_to_the_longest(deaths: int, delay_s: float) -> None:
    assert RestartPolicy().delay_s(deaths) == delay_s


def test_a_long_life_forgives_earlier_deaths() -> None:
    policy = RestartPolicy()

    assert policy.count_deaths(5, lived_s=59.9) == 6
    assert policy.count_deaths(5, lived_s=60.0) == 1


def test_a_deliberate_end_after_a_life_restarts_at_once_without_backoff() -> None:
    policy = RestartPolicy()

    assert policy.count_deaths(5, lived_s=600, is_intended=True) == 0
    assert policy.delay_s(0) == 0
    assert policy.count_deaths(5, lived_s=3, is_intended=True) == 6


@settings(deadline=None)  # a busy machine must not fail the test
@given(deaths=st.integers(min_value=1))
def test_delay_stays_within_its_bounds(deaths: int) -> None:
    assert 0.5 <= RestartPolicy().delay_s(deaths) <= 30.0
