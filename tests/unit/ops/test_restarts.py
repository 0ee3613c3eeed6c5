import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.embedded.restarts import RestartPolicy


@pytest.mark.parametrize(("deaths", "delay_s"), [(1, 0.5), (2, 1.0), (3, 2.0), (6, 16.0), (7, 30.0), (10_000, 30.0)])
def test_delay_doubles_up_to_the_longest(deaths: int, delay_s: float) -> None:
    assert RestartPolicy().delay_s(deaths) == delay_s


def test_a_long_life_forgives_earlier_deaths() -> None:
    policy = RestartPolicy()

    assert policy.deaths_in_a_row(5, lived_s=59.9) == 6
    assert policy.deaths_in_a_row(5, lived_s=60.0) == 1


def test_one_that_ended_on_purpose_after_a_life_is_started_at_once_and_not_held_against_it() -> None:
    policy = RestartPolicy()

    assert policy.deaths_in_a_row(5, lived_s=600, on_purpose=True) == 0
    assert policy.delay_s(0) == 0
    assert policy.deaths_in_a_row(5, lived_s=3, on_purpose=True) == 6


@settings(deadline=None)  # a busy machine is no failure
@given(deaths=st.integers(min_value=1))
def test_delay_stays_within_its_bounds(deaths: int) -> None:
    assert 0.5 <= RestartPolicy().delay_s(deaths) <= 30.0
