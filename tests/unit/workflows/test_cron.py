"""Cron times through both changes of the clock, in the zones where it goes wrong elsewhere."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workflows.package.cron import check_cron, fires_after, next_fire

NEW_YORK = "America/New_York"


def local_fires(cron: str, zone: str, after: str, count: int) -> list[str]:
    start = datetime.fromisoformat(after).replace(tzinfo=ZoneInfo(zone))
    fires = islice(fires_after(cron, zone, start.astimezone(UTC)), count)
    return [fire.astimezone(ZoneInfo(zone)).strftime("%d %H:%M:%S%z") for fire in fires]


@pytest.mark.parametrize(
    ("cron", "zone", "after", "expected"),
    [
        # in the gap: at the first valid instant after it
        ("30 2 * * *", NEW_YORK, "2026-03-07T12:00", ["08 03:00:00-0400", "09 02:30:00-0400"]),
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["29 03:00:00+0200", "30 02:30:00+0200"]),
        ("30 1 * * *", "Europe/London", "2026-03-28T12:00", ["29 02:00:00+0100", "30 01:30:00+0100"]),
        ("0 0 * * *", "America/Santiago", "2026-09-05T12:00", ["06 01:00:00-0300", "07 00:00:00-0300"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", ["04 02:30:00+1100", "05 02:15:00+1100"]),
        # in the fold: once, the first
        ("30 1 * * *", NEW_YORK, "2026-10-31T12:00", ["01 01:30:00-0400", "02 01:30:00-0500"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["25 02:30:00+0200", "26 02:30:00+0100"]),
        ("30 1 * * *", "Europe/London", "2026-10-24T12:00", ["25 01:30:00+0100", "26 01:30:00+0000"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00", ["05 01:45:00+1100", "06 01:45:00+1030"]),
        # a wildcard follows elapsed time
        ("0 * * * *", NEW_YORK, "2026-11-01T00:30", ["01 01:00:00-0400", "01 01:00:00-0500", "01 02:00:00-0500"]),
        ("*/30 1 * * *", NEW_YORK, "2026-11-01T00:30", ["01 01:00:00-0400", "01 01:30:00-0400", "01 01:00:00-0500"]),
    ],
)
def test_daylight_saving_is_as_in_debian_cron(cron: str, zone: str, after: str, expected: list[str]) -> None:
    assert local_fires(cron, zone, after, len(expected)) == expected


def changes_of_the_clocks(zone: str) -> list[datetime]:
    hours = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number) for number in range(365 * 24)]
    offsets = [hour.astimezone(ZoneInfo(zone)).utcoffset() for hour in hours]
    return [hour for hour, before, now in zip(hours[1:], offsets, offsets[1:], strict=False) if before != now]


@pytest.mark.parametrize("zone", [NEW_YORK, "Europe/London", "America/Santiago", "Australia/Lord_Howe", "Africa/Cairo"])
@pytest.mark.parametrize(("cron", "step_minutes"), [("*/30 * * * *", 30), ("* * * * *", 1)])
def test_wildcard_jobs_keep_their_step_over_each_change_of_the_clocks(zone: str, cron: str, step_minutes: int) -> None:
    changes = changes_of_the_clocks(zone)
    assert len(changes) == 2

    for change in changes:
        start = change - timedelta(hours=12)
        fires = [start, *islice(fires_after(cron, zone, start), 24 * 60 // step_minutes)]
        assert {later - earlier for earlier, later in pairwise(fires)} == {timedelta(minutes=step_minutes)}


@pytest.mark.parametrize("zone", [NEW_YORK, "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Africa/Cairo"])
@pytest.mark.parametrize("hour", range(4))
def test_a_daily_job_fires_once_on_each_day_of_a_year(zone: str, hour: int) -> None:
    start = datetime(2025, 12, 31, 23, 59, tzinfo=ZoneInfo(zone)).astimezone(UTC)

    days = [
        fire.astimezone(ZoneInfo(zone)).date() for fire in islice(fires_after(f"15 {hour} * * *", zone, start), 365)
    ]

    assert len(set(days)) == 365
    assert (days[0].isoformat(), days[-1].isoformat()) == ("2026-01-01", "2026-12-31")


@given(
    cron=st.sampled_from(["30 1 * * *", "15 2 * * *", "*/20 * * * *", "0 */2 * * *", "5,35 1-3 * * *", "@daily"]),
    zone=st.sampled_from([NEW_YORK, "Europe/London", "America/Santiago", "Australia/Lord_Howe", "Africa/Cairo"]),
    hour=st.integers(0, 365 * 48),
    milliseconds=st.integers(0, 3_600_000),
)
@settings(max_examples=300, deadline=None)
def test_the_sequence_is_the_same_from_wherever_it_is_taken_up(
    cron: str, zone: str, hour: int, milliseconds: int
) -> None:
    asked = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hour, milliseconds=milliseconds)
    earlier = fires_after(cron, zone, asked - timedelta(hours=5))

    known = next(fire for fire in earlier if fire > asked)

    assert next_fire(cron, zone, asked) == known


@pytest.mark.parametrize(
    ("cron", "first"),
    [
        ("*/10 * * * * *", "2026-01-01T00:00:10+00:00"),
        ("30 15 6 * * *", "2026-01-01T06:15:30+00:00"),
        ("@hourly", "2026-01-01T01:00:00+00:00"),
        ("@weekly", "2026-01-04T00:00:00+00:00"),
        ("0 0 29 2 *", "2028-02-29T00:00:00+00:00"),
        ("0 12 * MAR THU", "2026-03-05T12:00:00+00:00"),
    ],
)
def test_fields_seconds_and_macros(cron: str, first: str) -> None:
    check_cron(cron, "UTC")

    assert next_fire(cron, "UTC", datetime(2026, 1, 1, tzinfo=UTC)).isoformat() == first


@pytest.mark.parametrize(
    "cron",
    [
        "",
        "* * * *",
        "* * * * * * *",
        "0 0 31 2 *",
        "60 * * * *",
        "R R * * *",
        "H 2 * * *",
        "@reboot",
        "no cron at all x",
    ],
)
def test_what_cannot_fire_is_refused(cron: str) -> None:
    with pytest.raises(ValueError, match="cron"):
        check_cron(cron, "UTC")
