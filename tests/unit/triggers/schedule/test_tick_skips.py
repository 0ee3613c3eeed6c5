"""Skips of a firing: each is counted, and memory does not grow with them."""

from datetime import UTC, datetime, timedelta

from triggers.register.skip_notes import MAX_NOTES
from triggers.schedule.tick_plan import OVERLAP, PAUSED, Skip, Skips

NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def test_all_are_counted_and_the_newest_are_kept() -> None:
    skips = Skips([Skip(PAUSED, NOON, "acme", count=7)])

    skips.add(Skip(OVERLAP, NOON, f"app{number}") for number in range(1000))

    assert skips.counts == {PAUSED: 7, OVERLAP: 1000}
    assert [note["app_id"] for note in skips.notes] == [f"app{number}" for number in range(1000 - MAX_NOTES, 1000)]
    assert skips.last_by_reason[PAUSED].app_id == "acme"


def test_ticks_that_were_skipped_in_a_row_are_one_note_of_all_their_times() -> None:
    """Those of two apps come in turns, and none pushes the other's out."""
    skips = Skips([Skip(PAUSED, NOON, count=7, until=NOON + timedelta(minutes=6), exact=False)])

    skips.add(Skip(PAUSED, NOON + timedelta(minutes=number)) for number in (7, 8))
    skips.add(Skip(OVERLAP, NOON + timedelta(minutes=n), app) for n in range(9, 40) for app in ("acme", "globex"))

    said = [(note["times"], note["nominal_at"].minute, note["until"].minute, note.get("exact")) for note in skips.notes]
    assert said == [(9, 0, 8, False), (31, 9, 39, None), (31, 9, 39, None)]
