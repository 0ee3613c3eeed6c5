"""Cron times through both clock changes, in zones with unusual changes."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.workflows.package.cron_oracle import CHANGES, at
from workflows.package.cron.fire_times import check_cron, iter_fires_after, next_fire

NEW_YORK = "America/New_York"


def local_fires(cron: str, zone: str, after: str, count: int) -> list[str]:
    start = datetime.fromisoformat(after).replace(tzinfo=ZoneInfo(zone))
    fires = islice(iter_fires_after(cron, zone, start.astimezone(UTC)), count)
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
        ("30 1 * * *", NEW_YORK, "2026-10-31T12:00", ["01 01:30:00-0400", "02 01:30:00-0500"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["25 02:30:00+0200", "26 02:30:00+0100"]),
        ("30 1 * * *", "Europe/London", "2026-10-24T12:00", ["25 01:30:00+0100", "26 01:30:00+0000"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00", ["05 01:45:00+1100", "06 01:45:00+1030"]),
        ("0 0 * * *", "Africa/Cairo", "2026-04-23T12:00", ["24 01:00:00+0300", "25 00:00:00+0300"]),
        ("30 2 * * *", "Pacific/Apia", "2011-12-29T12:00", ["31 00:00:00+1400", "31 02:30:00+1400"]),
        ("0,30 2,3 * * *", NEW_YORK, "2026-03-08T00:00", ["08 03:00:00-0400", "08 03:30:00-0400"]),
        ("*/10 30 2 * * *", NEW_YORK, "2026-03-07T12:00", ["08 03:00:00-0400", "09 02:30:00-0400"]),
        # in the fold: once, the first
        ("30 23 * * *", "America/Santiago", "2026-04-04T12:00", ["04 23:30:00-0300", "05 23:30:00-0400"]),
        ("30 23 * * *", "Africa/Cairo", "2026-10-29T12:00", ["29 23:30:00+0300", "30 23:30:00+0200"]),
        ("0-30/15 1 * * *", NEW_YORK, "2026-11-01T00:30", ["01 01:00:00-0400", "01 01:15:00-0400", "01 01:30:00-0400"]),
        # a wildcard follows elapsed time
        ("*/15 2 * * *", NEW_YORK, "2026-03-07T12:00", ["09 02:00:00-0400", "09 02:15:00-0400"]),
        ("30 * * * *", NEW_YORK, "2026-03-08T01:00", ["08 01:30:00-0500", "08 03:30:00-0400"]),
        ("15 * * * *", "Australia/Lord_Howe", "2026-10-04T01:00", ["04 01:15:00+1030", "04 03:15:00+1100"]),
        ("*/30 * * * *", "Australia/Lord_Howe", "2026-04-05T01:15", ["05 01:30:00+1100", "05 01:30:00+1030"]),
        ("0 * * * *", NEW_YORK, "2026-11-01T00:30", ["01 01:00:00-0400", "01 01:00:00-0500", "01 02:00:00-0500"]),
        ("*/30 1 * * *", NEW_YORK, "2026-11-01T00:30", ["01 01:00:00-0400", "01 01:30:00-0400", "01 01:00:00-0500"]),
    ],
)
def test_daylight_saving_is_as_in_debian_cron(cron: str, zone: str, after: str, expected: list[str]) -> None:
    assert local_fires(cron, zone, after, len(expected)) == expected


@pytest.mark.parametrize("zone", [NEW_YORK, "Europe/London", "America/Santiago", "Australia/Lord_Howe", "Africa/Cairo"])
@pytest.mark.parametrize(("cron", "step_minutes"), [("*/30 * * * *", 30), ("* * * * *", 1)])
def test_wildcard_jobs_keep_their_step_over_each_change_of_the_clocks(zone: str, cron: str, step_minutes: int) -> None:
    changes = [at(change) for change in CHANGES if change[0] == zone]
    assert len(changes) == 2

    for change in changes:
        start = change - timedelta(hours=12)
        fires = [start, *islice(iter_fires_after(cron, zone, start), 24 * 60 // step_minutes)]
        assert {later - earlier for earlier, later in pairwise(fires)} == {timedelta(minutes=step_minutes)}


@pytest.mark.parametrize("zone", [NEW_YORK, "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Africa/Cairo"])
@pytest.mark.parametrize("hour", range(4))
def test_a_daily_job_fires_once_on_each_day_of_a_year(zone: str, hour: int) -> None:
    start = datetime(2025, 12, 31, 23, 59, tzinfo=ZoneInfo(zone)).astimezone(UTC)

    days = [
        fire.astimezone(ZoneInfo(zone)).date()
        for fire in islice(iter_fires_after(f"15 {hour} * * *", zone, start), 365)
    ]

    assert len(set(days)) == 365
    assert (days[0].isoformat(), days[-1].isoformat()) == ("2026-01-01", "2026-12-31")


@given(
    cron=st.sampled_from(["30 1 * * *", "15 2 * * *", "*/20 * * * *", "0 */2 * * *", "5,35 1-3 * * *", "@daily"]),
    zone=st.sampled_from([NEW_YORK, "Europe/London", "America/Santiago", "Australia/Lord_Howe", "Africa/Cairo"]),
    hour=st.integers(0, 365 * 48),
    milliseconds=st.integers(0, 3_600_000),
)
def test_the_sequence_is_the_same_from_wherever_it_is_taken_up(
    cron: str, zone: str, hour: int, milliseconds: int
) -> None:
    asked = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hour, milliseconds=milliseconds)
    earlier = iter_fires_after(cron, zone, asked - timedelta(hours=5))

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
        ("5-5 * * * *", "2026-01-01T00:05:00+00:00"),
        ("0 0 13-13 * *", "2026-01-13T00:00:00+00:00"),
        ("05-5 * * * *", "2026-01-01T00:05:00+00:00"),
        ("0 0 * * MON-1", "2026-01-05T00:00:00+00:00"),
        ("0 0 * * sun-0,wed", "2026-01-04T00:00:00+00:00"),
        ("0 0 * mar-3 *", "2026-03-01T00:00:00+00:00"),
        ("*/90 * * * *", "2026-01-01T01:00:00+00:00"),
        ("0 0 13 * 1", "2026-01-05T00:00:00+00:00"),
        ("0 0 */2 * 1", "2026-01-05T00:00:00+00:00"),
        ("0 0 L * *", "2026-01-31T00:00:00+00:00"),
        ("0 0 * * 5#2", "2026-01-09T00:00:00+00:00"),
        ("0 0 * * L5", "2026-01-30T00:00:00+00:00"),
        ("0 22-3 * * *", "2026-01-01T01:00:00+00:00"),
        ("0 0 * * 7", "2026-01-04T00:00:00+00:00"),
        ("0 0 ? * 1", "2026-01-05T00:00:00+00:00"),
        ("@Yearly", "2027-01-01T00:00:00+00:00"),
        ("0 0 29 2 */7", "2032-02-29T00:00:00+00:00"),
    ],
)
def test_fields_seconds_and_macros(cron: str, first: str) -> None:
    check_cron(cron, "UTC")

    found = next_fire(cron, "UTC", datetime(2026, 1, 1, tzinfo=UTC))
    assert found is not None
    assert found.isoformat() == first


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
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        "0 0 15W * *",
        "0 0 * * 8",
        "*/0 * * * *",
        "5-1-3 * * * *",
        "\u0661 * * * *",
        "0 0 * * 1#6",
    ],
)
def test_what_cannot_fire_is_refused(cron: str) -> None:
    with pytest.raises(ValueError, match="cron"):
        check_cron(cron, "UTC")


@pytest.mark.parametrize("cron", ["* * * * *", "0 0 1 1 *", "30 * * * *"])
def test_the_end_of_the_calendar_is_the_end(cron: str) -> None:
    assert next_fire(cron, "Asia/Tokyo", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)) is None
