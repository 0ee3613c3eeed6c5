"""Clock changes: found to the second, and none in a zone that keeps its offset."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from accounting.infra.clock_changes import find_clock_changes, find_last_change, find_offset_change, find_offset_period

BERLIN = "Europe/Berlin"
SPRING = datetime(2026, 3, 29, 1, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 25, 1, tzinfo=UTC)


def test_the_changes_of_a_year_are_found_to_the_second() -> None:
    assert find_clock_changes(BERLIN, 2026) == (SPRING, AUTUMN)
    assert find_clock_changes("UTC", 2026) == ()


def test_historic_changes_are_found_too() -> None:
    assert find_clock_changes("Asia/Pyongyang", 2015) == (datetime(2015, 8, 14, 15, tzinfo=UTC),)
    assert find_clock_changes("Africa/Monrovia", 1972) == (datetime(1972, 1, 7, 0, 44, 30, tzinfo=UTC),)


def test_a_change_at_the_instant_itself_has_happened() -> None:
    assert find_last_change(BERLIN, SPRING) == SPRING
    assert find_last_change(BERLIN, SPRING - timedelta(seconds=1)) is None


def test_a_period_ends_with_the_next_change_or_the_year() -> None:
    summer = find_offset_period(BERLIN, SPRING)
    winter = find_offset_period(BERLIN, AUTUMN)

    assert (summer.offset, summer.end) == (timedelta(hours=2), AUTUMN)
    assert (winter.offset, winter.end) == (timedelta(hours=1), datetime(2027, 1, 1, tzinfo=UTC))


def test_fractions_of_a_second_do_not_move_a_change() -> None:
    fraction = timedelta(microseconds=700_000)

    assert find_offset_change(ZoneInfo(BERLIN), SPRING - timedelta(days=1) + fraction, SPRING + fraction) == SPRING
