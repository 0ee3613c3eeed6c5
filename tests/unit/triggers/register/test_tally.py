"""The tally: what is counted and noted between two writes, and what a store that is away costs."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pymongo.errors import AutoReconnect

from triggers.register.store import MAX_NOTES, TriggerStore
from triggers.register.tally import MOST_TRIGGERS, Tally
from triggers.register.trigger import Trigger
from workflows.package.trigger_specs.schedule import ScheduleSpec

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)


class Noted(TriggerStore):
    def __init__(self, *, away: bool = False) -> None:
        self.away = away
        self.written: dict[str, tuple[Mapping[str, int], Sequence[Mapping[str, Any]], datetime | None]] = {}

    async def note(
        self,
        trigger: Trigger,
        *,
        counts: Mapping[str, int],
        notes: Sequence[Mapping[str, Any]],
        fired_at: datetime | None,
    ) -> None:
        if self.away:
            raise AutoReconnect("away")
        self.written[trigger.id] = counts, notes, fired_at


def trigger(name: str = "nightly") -> Trigger:
    return Trigger("Digest", ScheduleSpec(name=name, every="1h"))  # type: ignore[arg-type]  # as authors write it


async def test_counts_and_reasons_are_written_together() -> None:
    store = Noted()
    tally = Tally(store)

    tally.accepted(trigger(), at=NOON)
    tally.accepted(trigger(), at=NOON)
    tally.duplicate(trigger(), app_id="acme", event_id="msg_1")
    tally.skipped(trigger(), "loop_guard", app_id="acme", event_id="e" * 500, detail="d" * 500)
    await tally.write()

    counts, notes, fired_at = store.written["Digest/nightly"]
    assert counts == {"accepted": 2, "duplicate": 1, "skipped.loop_guard": 1}
    assert fired_at == NOON
    assert [each["reason"] for each in notes] == ["duplicate", "loop_guard"]
    assert (len(notes[1]["event_id"]), len(notes[1]["detail"])) == (200, 300)


async def test_nothing_new_is_not_written_again() -> None:
    store = Noted()
    tally = Tally(store)
    tally.accepted(trigger(), at=NOON)
    await tally.write()
    store.written.clear()

    await tally.write()

    assert store.written == {}


async def test_only_the_newest_notes_are_kept_and_all_are_counted() -> None:
    store = Noted()
    tally = Tally(store)
    for number in range(MAX_NOTES + 5):
        tally.skipped(trigger(), "overlap", event_id=str(number))
    await tally.write()

    counts, notes, _ = store.written["Digest/nightly"]
    assert counts == {"skipped.overlap": MAX_NOTES + 5}
    assert [each["event_id"] for each in notes] == [str(number) for number in range(5, MAX_NOTES + 5)]


async def test_what_any_stranger_can_cause_pushes_no_note_out() -> None:
    store = Noted()
    tally = Tally(store)
    tally.skipped(trigger(), "paused")
    for _ in range(100):
        tally.refused(trigger(), "unauthorized", noted=False)
    await tally.write()

    counts, notes, _ = store.written["Digest/nightly"]
    assert counts == {"skipped.paused": 1, "refused.unauthorized": 100}
    assert [each["reason"] for each in notes] == ["paused"]


async def test_it_neither_grows_without_bound_nor_fails_when_the_store_is_away() -> None:
    tally = Tally(Noted(away=True))
    for number in range(MOST_TRIGGERS + 10):
        tally.accepted(trigger(f"t{number}"), at=NOON)

    assert len(tally._entries) == MOST_TRIGGERS
    await tally.write()
