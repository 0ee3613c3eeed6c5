"""Budget windows turn at the boundary of their zone, without gaps or overlaps."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from accounting.budgets.budget import Window
from accounting.budgets.window_calendar import WindowSpan, window_span

TICK = timedelta(microseconds=1)
# Zones with unusual changes: at midnight, by half an hour, over the date line, back over midnight.
ZONES = (
    *("UTC", "Europe/Berlin", "America/New_York", "America/Santiago", "Australia/Lord_Howe", "Africa/Cairo"),
    *("Asia/Kolkata", "Asia/Kathmandu", "Pacific/Apia", "America/Havana", "America/Toronto", "Asia/Tehran"),
)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "within", "start", "end"),
    [
        ("UTC", "2026-02-28 12:00", "2026-02-28 00:00", "2026-03-01 00:00"),
        ("Europe/Berlin", "2026-03-29 12:00", "2026-03-28 23:00", "2026-03-29 22:00"),  # 23 hours
        ("Europe/Berlin", "2026-10-25 12:00", "2026-10-24 22:00", "2026-10-25 23:00"),  # 25 hours
        ("America/New_York", "2026-03-08 12:00", "2026-03-08 05:00", "2026-03-09 04:00"),
        ("America/New_York", "2026-11-01 12:00", "2026-11-01 04:00", "2026-11-02 05:00"),
        ("America/Santiago", "2026-09-06 12:00", "2026-09-06 04:00", "2026-09-07 03:00"),  # begins at 01:00
        ("America/Santiago", "2026-04-05 02:30", "2026-04-04 03:00", "2026-04-05 04:00"),  # 23:30 for the second time
        ("Australia/Lord_Howe", "2026-10-04 12:00", "2026-10-03 13:30", "2026-10-04 13:00"),  # 23½ hours
        ("Australia/Lord_Howe", "2026-04-05 12:00", "2026-04-04 13:00", "2026-04-05 13:30"),
        ("Pacific/Apia", "2011-12-30 09:59", "2011-12-29 10:00", "2011-12-30 10:00"),  # then came the 31st
        ("Pacific/Apia", "2011-12-30 10:00", "2011-12-30 10:00", "2011-12-31 10:00"),
    ],
)
def test_a_day_turns_at_its_zones_midnight(zone: str, within: str, start: str, end: str) -> None:
    assert window_span("day", zone, utc(within)) == WindowSpan(utc(start), utc(end))


def test_a_day_ends_at_its_last_instant_and_the_next_begins_at_its_first() -> None:
    midnight = utc("2026-03-28 23:00")

    assert window_span("day", "Europe/Berlin", midnight - TICK).end == midnight
    assert window_span("day", "Europe/Berlin", midnight).start == midnight


@pytest.mark.parametrize(
    ("zone", "within", "start", "end"),
    [
        ("Europe/Berlin", "2026-03-10 12:00", "2026-02-28 23:00", "2026-03-31 22:00"),
        ("Europe/Berlin", "2026-12-31 23:00", "2026-12-31 23:00", "2027-01-31 23:00"),
        ("America/New_York", "2028-02-29 23:00", "2028-02-01 05:00", "2028-03-01 05:00"),
        ("UTC", "2026-01-31 23:59:59", "2026-01-01 00:00", "2026-02-01 00:00"),
    ],
)
def test_a_month_is_as_long_as_in_the_calendar(zone: str, within: str, start: str, end: str) -> None:
    assert window_span("month", zone, utc(within)) == WindowSpan(utc(start), utc(end))


@pytest.mark.parametrize(
    ("zone", "within", "start", "end"),
    [
        ("Asia/Kolkata", "2026-01-01 00:29", "2025-12-31 23:30", "2026-01-01 00:30"),
        ("Europe/Berlin", "2026-10-25 00:59", "2026-10-25 00:00", "2026-10-25 01:00"),  # 02:59 in summer
        ("Europe/Berlin", "2026-10-25 01:00", "2026-10-25 01:00", "2026-10-25 02:00"),  # 02:00 once more
        ("Australia/Lord_Howe", "2026-04-04 15:10", "2026-04-04 15:00", "2026-04-04 15:30"),  # set back to 01:30
        ("Australia/Lord_Howe", "2026-10-03 15:45", "2026-10-03 15:30", "2026-10-03 16:00"),  # begins at 02:30
    ],
)
def test_an_hour_ends_when_the_clock_shows_the_next_or_is_set(zone: str, within: str, start: str, end: str) -> None:
    assert window_span("hour", zone, utc(within)) == WindowSpan(utc(start), utc(end))


def test_a_total_and_a_run_have_no_end() -> None:
    assert window_span("total", "Europe/Berlin", utc("2026-03-29 12:00")).end is None
    assert window_span("run", "UTC", utc("2026-03-29 12:00")).end is None


@given(
    zone=st.sampled_from(ZONES),
    window=st.sampled_from(["hour", "day", "month"]),
    instant=st.datetimes(datetime(1970, 1, 2), datetime(2099, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 -- bounds
)
@example(zone="America/Toronto", window="day", instant=datetime(1987, 10, 25, 4, 30, tzinfo=UTC))
def test_windows_leave_no_gap_and_never_overlap(zone: str, window: Window, instant: datetime) -> None:
    its = window_span(window, zone, instant)

    assert its.end is not None
    assert its.start <= instant < its.end
    assert {window_span(window, zone, each) for each in (its.start, its.end - TICK)} == {its}
    assert window_span(window, zone, its.end).start == its.end
    assert window_span(window, zone, its.start - TICK).end == its.start
