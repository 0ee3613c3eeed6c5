"""Token buckets: a burst at once, then the rate, and no memory of more names than it was given."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.triggers.property_settings import without_deadline
from triggers.token_bucket import TokenBuckets


class FakeClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_is_admitted_and_then_as_much_as_the_rate_gives() -> None:
    clock = FakeClock()
    buckets = TokenBuckets(clock=clock)

    def take() -> bool:
        return buckets.try_acquire("a", per_s=2, burst=3).is_allowed

    assert [take() for _ in range(4)] == [True, True, True, False]
    clock.now += 0.5
    assert [take(), take()] == [True, False]
    clock.now += 60
    assert [take() for _ in range(4)] == [True, True, True, False]


def test_a_refused_caller_gets_a_retry_time_and_is_then_admitted() -> None:
    clock = FakeClock()
    buckets = TokenBuckets(clock=clock)
    buckets.try_acquire("a", per_s=0.1, burst=1)

    refused = buckets.try_acquire("a", per_s=0.1, burst=1)

    assert (refused.is_allowed, refused.remaining, refused.wait_s) == (False, 0, 10.0)
    clock.now += refused.wait_s
    assert buckets.try_acquire("a", per_s=0.1, burst=1).is_allowed


def test_names_have_buckets_of_their_own_and_the_oldest_is_forgotten() -> None:
    buckets = TokenBuckets(clock=FakeClock(), max_names=2)
    for name in ("a", "b"):
        assert buckets.try_acquire(name, per_s=1, burst=1).is_allowed
    assert not buckets.try_acquire("a", per_s=1, burst=1).is_allowed
    assert buckets.try_acquire("c", per_s=1, burst=1).is_allowed

    assert buckets.try_acquire("b", per_s=1, burst=1).is_allowed  # forgotten for c
    assert not buckets.try_acquire("c", per_s=1, burst=1).is_allowed


@settings(without_deadline)
@given(pauses=st.lists(st.floats(0, 5), max_size=60), rate=st.floats(0.1, 10), burst=st.integers(1, 20))
def test_never_more_than_the_burst_and_what_the_rate_gave_meanwhile(
    pauses: list[float], rate: float, burst: int
) -> None:
    clock = FakeClock()
    buckets = TokenBuckets(clock=clock)
    let_in = 0
    for pause in pauses:
        clock.now += pause
        let_in += buckets.try_acquire("a", per_s=rate, burst=burst).is_allowed

    assert let_in <= burst + sum(pauses) * rate + 1e-6
