"""Token buckets: a burst at once, then the rate, and no memory of more names than it was given."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.triggers.unhurried import unhurried
from triggers.token_bucket import TokenBuckets


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_is_let_in_and_then_as_much_as_the_rate_gives() -> None:
    clock = Clock()
    buckets = TokenBuckets(clock=clock)

    def take() -> bool:
        return buckets.take("a", per_s=2, burst=3).allowed

    assert [take() for _ in range(4)] == [True, True, True, False]
    clock.now += 0.5
    assert [take(), take()] == [True, False]
    clock.now += 60
    assert [take() for _ in range(4)] == [True, True, True, False]


def test_whoever_is_refused_learns_when_to_come_back_and_then_is_let_in() -> None:
    clock = Clock()
    buckets = TokenBuckets(clock=clock)
    buckets.take("a", per_s=0.1, burst=1)

    refused = buckets.take("a", per_s=0.1, burst=1)

    assert (refused.allowed, refused.left, refused.wait_s) == (False, 0, 10.0)
    clock.now += refused.wait_s
    assert buckets.take("a", per_s=0.1, burst=1).allowed


def test_names_have_buckets_of_their_own_and_the_oldest_is_forgotten() -> None:
    buckets = TokenBuckets(clock=Clock(), most_names=2)
    for name in ("a", "b"):
        assert buckets.take(name, per_s=1, burst=1).allowed
    assert not buckets.take("a", per_s=1, burst=1).allowed
    assert buckets.take("c", per_s=1, burst=1).allowed

    assert buckets.take("b", per_s=1, burst=1).allowed  # forgotten for c
    assert not buckets.take("c", per_s=1, burst=1).allowed


@settings(unhurried)
@given(pauses=st.lists(st.floats(0, 5), max_size=60), rate=st.floats(0.1, 10), burst=st.integers(1, 20))
def test_never_more_than_the_burst_and_what_the_rate_gave_meanwhile(
    pauses: list[float], rate: float, burst: int
) -> None:
    clock = Clock()
    buckets = TokenBuckets(clock=clock)
    let_in = 0
    for pause in pauses:
        clock.now += pause
        let_in += buckets.take("a", per_s=rate, burst=burst).allowed

    assert let_in <= burst + sum(pauses) * rate + 1e-6
