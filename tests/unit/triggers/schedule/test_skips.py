"""Skips of a firing: each is counted, and memory does not grow with them."""

from datetime import UTC, datetime

from triggers.register.store import MAX_NOTES
from triggers.schedule.plan import PAUSED
from triggers.schedule.skips import OVERLAP, Skip, Skips

NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def test_all_are_counted_and_the_newest_are_kept() -> None:
    skips = Skips([Skip(PAUSED, NOON, "acme", count=7)])

    skips.add(Skip(OVERLAP, NOON, f"app{number}") for number in range(1000))

    assert skips.counts == {PAUSED: 7, OVERLAP: 1000}
    assert [skip.app_id for skip in skips.newest] == [f"app{number}" for number in range(1000 - MAX_NOTES, 1000)]
    assert skips.last[PAUSED].app_id == "acme"
