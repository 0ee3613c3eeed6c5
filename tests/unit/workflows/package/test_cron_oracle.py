"""Cron times against an oracle, and every second around clock changes."""

from datetime import timedelta
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.workflows.package.cron_oracle import CHANGES, MINUTE, at, crons, oracle
from workflows.package.cron.fire_times import iter_fires_after

SECOND = timedelta(seconds=1)
EARLIER_IN_APIA = [("Pacific/Apia", "2011-04-02T14:00"), ("Pacific/Apia", "2011-09-24T14:00")]


@given(
    cron=crons, change=st.sampled_from(CHANGES), minutes=st.integers(0, 40 * 60), milliseconds=st.integers(0, 60_000)
)
@example(cron="*/90 * * * *", change=CHANGES[0], minutes=0, milliseconds=0)
@example(cron="1-59/2 2 * * *", change=CHANGES[0], minutes=1200, milliseconds=0)
@example(cron="0 0 * * *", change=CHANGES[7], minutes=0, milliseconds=0)
@example(cron="30 12 30 * *", change=CHANGES[10], minutes=1200, milliseconds=1)
@example(cron="0 0 13 * 5", change=CHANGES[10], minutes=0, milliseconds=0)
@example(cron="* 1 * * 0", change=CHANGES[1], minutes=0, milliseconds=0)
@example(cron="5-5 0 * * *", change=CHANGES[3], minutes=0, milliseconds=0)
def test_what_fires_is_what_the_oracle_sees(
    cron: str, change: tuple[str, str], minutes: int, milliseconds: int
) -> None:
    start = at(change) - timedelta(hours=40) + minutes * MINUTE + timedelta(milliseconds=milliseconds)
    end = at(change) + timedelta(hours=50)

    fires = takewhile(lambda each: each <= end, iter_fires_after(cron, change[0], start))

    assert list(fires) == [each for each in oracle(cron, change) if start < each <= end]


@pytest.mark.parametrize(("zone", "change"), [*CHANGES, *EARLIER_IN_APIA])
@pytest.mark.parametrize("cron", ["* * * * * *", "*/15 * * * * *"])
def test_every_second_through_each_change_of_the_clocks_fires_once(zone: str, change: str, cron: str) -> None:
    changed_at = at((zone, change))
    offsets = {moment.astimezone(ZoneInfo(zone)).utcoffset() for moment in (changed_at - SECOND, changed_at)}
    assert len(offsets) == 2
    step = SECOND if cron.startswith("* ") else 15 * SECOND

    start = changed_at - timedelta(minutes=20)
    fires = [start, *islice(iter_fires_after(cron, zone, start), 2400 * SECOND // step)]
    assert {later - earlier for earlier, later in pairwise(fires)} == {step}
    assert fires[-1] == changed_at + timedelta(minutes=20)
