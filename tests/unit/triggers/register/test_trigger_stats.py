"""The tally: what is counted and noted between two writes, and what a store that is away costs."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pymongo.errors import AutoReconnect

from triggers.register.skip_notes import MAX_NOTES
from triggers.register.trigger import Trigger
from triggers.register.trigger_stats import MAX_TRIGGERS, TriggerStats
from triggers.register.trigger_store import TriggerStore
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)


class RecordedCounts(TriggerStore):
    def __init__(self, *, away: bool = False) -> None:
        self.away = away
        self.written: dict[str, tuple[Mapping[str, int], Sequence[Mapping[str, Any]], datetime | None]] = {}

    async def add_stats(
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
    store = RecordedCounts()
    tally = TriggerStats(store)

    tally.count_accepted(trigger(), at=NOON)
    tally.count_accepted(trigger(), at=NOON)
    tally.record_duplicate(trigger(), app_id="acme", event_id="msg_1")
    tally.record_skip(trigger(), "loop_guard", app_id="acme", event_id="e" * 500, detail="d" * 500)
    await tally.write()

    counts, notes, fired_at = store.written["Digest/nightly"]
    assert counts == {"accepted": 2, "duplicate": 1, "skipped.loop_guard": 1}
    assert fired_at == NOON
    assert [each["reason"] for each in notes] == ["duplicate", "loop_guard"]
    assert (len(notes[1]["event_id"]), len(notes[1]["detail"])) == (200, 300)


async def test_nothing_new_is_not_written_again() -> None:
    store = RecordedCounts()
    tally = TriggerStats(store)
    tally.count_accepted(trigger(), at=NOON)
    await tally.write()
    store.written.clear()

    await tally.write()

    assert store.written == {}


async def test_only_the_newest_notes_are_kept_and_all_are_counted() -> None:
    store = RecordedCounts()
    tally = TriggerStats(store)
    for number in range(MAX_NOTES + 5):
        tally.record_skip(trigger(), "unmappable", event_id=str(number), detail=f"no field {number}")
    await tally.write()

    counts, notes, _ = store.written["Digest/nightly"]
    assert counts == {"skipped.unmappable": MAX_NOTES + 5}
    assert [each["event_id"] for each in notes] == [str(number) for number in range(5, MAX_NOTES + 5)]


async def test_one_reason_again_and_again_is_one_note_and_pushes_none_out() -> None:
    store = RecordedCounts()
    tally = TriggerStats(store)
    tally.record_skip(trigger(), "unmappable", detail="no field")
    for number in range(1000):
        tally.record_skip(trigger(), "paused", app_id=("acme", "globex")[number % 2], event_id=str(number))
    await tally.write()

    _, notes, _ = store.written["Digest/nightly"]
    said = [(each["reason"], each.get("app_id"), each.get("times"), each.get("event_id")) for each in notes]
    assert said == [
        ("unmappable", None, None, None),
        ("paused", "acme", 500, "998"),
        ("paused", "globex", 500, "999"),
    ]
    assert notes[1]["first_at"] <= notes[1]["at"]


async def test_an_event_that_is_merged_is_neither_a_run_nor_a_duplicate() -> None:
    store = RecordedCounts()
    tally = TriggerStats(store)
    tally.count_merged(trigger())
    await tally.write()

    assert store.written["Digest/nightly"] == ({"merged": 1}, [], None)


async def test_unauthenticated_calls_push_no_note_out() -> None:
    store = RecordedCounts()
    tally = TriggerStats(store)
    tally.record_skip(trigger(), "paused")
    for _ in range(100):
        tally.record_refusal(trigger(), "unauthorized", keep_note=False)
    await tally.write()

    counts, notes, _ = store.written["Digest/nightly"]
    assert counts == {"skipped.paused": 1, "refused.unauthorized": 100}
    assert [each["reason"] for each in notes] == ["paused"]


async def test_it_neither_grows_without_bound_nor_fails_when_the_store_is_away() -> None:
    tally = TriggerStats(RecordedCounts(away=True))
    for number in range(MAX_TRIGGERS + 10):
        tally.count_accepted(trigger(f"t{number}"), at=NOON)

    assert len(tally._entries) == MAX_TRIGGERS
    await tally.write()
