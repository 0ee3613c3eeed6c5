"""The trigger store on a real MongoDB: edits, pauses and notes, of packages' triggers and of those made at run time."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from triggers.register.skip_notes import MAX_NOTES, Notes
from triggers.register.trigger import Trigger
from triggers.register.trigger_record import Pause
from triggers.register.trigger_store import TriggerExistsError, TriggerStore
from workers.store.run_store import RunStore
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec
from workflows.package.trigger_specs.trigger_spec import TriggerSpec
from workflows.package.trigger_specs.webhook_spec import Verification, WebhookSpec

NOW = datetime(2026, 3, 29, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
PAUSE = Pause(NOW, "ada", "holidays")
HOURLY = ScheduleSpec.model_validate({"name": "tick", "every": "1h"})
HOOK = WebhookSpec(name="paid", verify=Verification(scheme="github", secret=("env:S",)))


@pytest.fixture
async def triggers(store: RunStore) -> TriggerStore:
    found = TriggerStore(store.database)
    await found.ensure_indexes()
    return found


def made_trigger(spec: TriggerSpec = HOURLY, app_id: str = "acme") -> Trigger:
    return Trigger("Digest", spec, app_id, 1)


async def test_one_identity_is_made_once_also_by_many_at_once(triggers: TriggerStore) -> None:
    async def attempt() -> bool:
        try:
            await triggers.create(made_trigger())
        except TriggerExistsError:
            return False
        return True

    assert sum(await asyncio.gather(*(attempt() for _ in range(20)))) == 1
    await triggers.create(made_trigger(app_id="globex"))
    assert [each.id async for each in triggers.iter_runtime_triggers()] == ["Digest/tick@acme", "Digest/tick@globex"]


async def test_of_two_edits_of_one_revision_the_second_is_refused(triggers: TriggerStore) -> None:
    await triggers.create(made_trigger())
    edited = made_trigger(HOURLY.model_copy(update={"overlap": "allow"}))

    answers = await asyncio.gather(*(triggers.replace(edited, expected_revision=1) for _ in range(2)))

    assert sorted(answers) == [False, True]
    record = await triggers.find(edited.id)
    assert record is not None
    assert (record.revision, record.spec) == (2, edited.spec)


async def test_a_packages_trigger_has_a_document_once_there_is_state_to_store(triggers: TriggerStore) -> None:
    trigger = Trigger("Digest", HOURLY)
    assert await triggers.find(trigger.id) is None

    await triggers.pause(trigger, PAUSE)

    record = await triggers.find(trigger.id)
    assert record is not None
    assert (record.paused, record.spec, record.workflow, record.name) == (PAUSE, None, "Digest", "tick")
    assert await triggers.resume(trigger)
    assert not await triggers.resume(trigger)


async def test_resuming_all_resumes_each_app(triggers: TriggerStore) -> None:
    trigger = Trigger("Digest", HOURLY)
    for app_id in ("acme", "a.b/c$d"):
        await triggers.pause(trigger, PAUSE, app_id=app_id)
    record = await triggers.find(trigger.id)
    assert record is not None
    assert set(record.paused_apps) == {"acme", "a.b/c$d"}

    assert await triggers.resume(trigger, app_id="a.b/c$d")
    record = await triggers.find(trigger.id)
    assert record is not None
    assert set(record.paused_apps) == {"acme"}
    assert await triggers.resume(trigger)
    record = await triggers.find(trigger.id)
    assert record is not None
    assert record.pause_of("acme") is None
    await triggers.pause(trigger, PAUSE, app_id="acme")
    assert await triggers.resume(trigger, app_id="acme")
    assert not await triggers.resume(trigger)


async def test_the_newest_notes_are_kept_and_all_are_counted(triggers: TriggerStore) -> None:
    trigger = Trigger("Digest", HOURLY)
    for number in range(MAX_NOTES + 3):
        note = {"reason": "unmappable", "detail": f"${number}", "at": NOW, "number": number}
        await triggers.add_stats(
            trigger, counts={"skipped.unmappable": 1}, notes=[note], fired_at=NOW - number * MINUTE
        )
    await triggers.add_stats(trigger, counts={"accepted": 1}, notes=[], fired_at=NOW - MINUTE)

    record = await triggers.find(trigger.id)
    assert record is not None
    assert record.counts == {"skipped.unmappable": MAX_NOTES + 3, "accepted": 1}
    assert [each["number"] for each in record.notes] == list(range(3, MAX_NOTES + 3))
    assert record.last_fired_at == NOW
    assert (record.workflow, record.name, record.app_id) == ("Digest", "tick", None)


def notes_of_two_apps() -> list[dict[str, Any]]:
    """As ticks, calls and events leave them: in turns, alone, and with a reason in between."""
    said: list[dict[str, Any]] = [
        *({"reason": "overlap", "app_id": app, "nominal_at": NOW + n * MINUTE} for n in range(30) for app in "ab"),
        {"reason": "late", "nominal_at": NOW, "until": NOW + MINUTE, "times": 4},
        {"reason": "late", "nominal_at": NOW + 2 * MINUTE, "exact": False},
        *({"reason": "paused", "app_id": "a", "event_id": str(n), "detail": "moving"} for n in range(3)),
        {"reason": "paused", "app_id": "a", "event_id": "3", "detail": "moved"},
        {"reason": "overlap", "app_id": "b", "nominal_at": NOW + 30 * MINUTE},
        {"reason": "overlap", "app_id": "a", "nominal_at": NOW + 30 * MINUTE},
    ]
    return [{**note, "at": NOW + number * MINUTE} for number, note in enumerate(said)]


@pytest.mark.parametrize("in_one_write", [1, 2, 7, 100])
async def test_equal_notes_in_a_row_are_one_whichever_write_brought_them(
    triggers: TriggerStore, in_one_write: int
) -> None:
    trigger, given = Trigger("Digest", HOURLY), notes_of_two_apps()
    expected = Notes()
    for note in given:
        expected.add(note)
    for begin in range(0, len(given), in_one_write):
        some = Notes()
        for note in given[begin : begin + in_one_write]:
            some.add(note)
        await triggers.add_stats(trigger, counts={"skipped.x": len(some)}, notes=list(some), fired_at=None)

    record = await triggers.find(trigger.id)
    assert record is not None
    assert list(record.notes) == list(expected)
    assert [(each["reason"], each.get("app_id"), each.get("times", 1)) for each in record.notes] == [
        ("overlap", "a", 30),
        ("late", None, 5),
        ("paused", "a", 3),
        ("paused", "a", 1),
        ("overlap", "b", 31),
        ("overlap", "a", 1),
    ]
    late, paused, last = record.notes[1], record.notes[2], record.notes[4]
    assert (late["nominal_at"], late["until"], late["exact"]) == (NOW, NOW + 2 * MINUTE, False)
    assert (paused["first_at"], paused["at"], paused["event_id"]) == (given[62]["at"], given[64]["at"], "2")
    assert (last["nominal_at"], last["until"], last["first_at"]) == (NOW, NOW + 30 * MINUTE, given[1]["at"])


async def test_writers_at_once_lose_no_note_of_each_other(triggers: TriggerStore) -> None:
    trigger = made_trigger(HOOK)
    await triggers.create(trigger)
    note = {"reason": "paused", "app_id": "acme", "at": NOW, "times": 3}

    await asyncio.gather(
        *(triggers.add_stats(trigger, counts={"refused.paused": 3}, notes=[note], fired_at=None) for _ in range(20))
    )

    record = await triggers.find(trigger.id)
    assert record is not None
    assert [(each["times"], each["first_at"]) for each in record.notes] == [(60, NOW)]
    assert (record.counts, record.spec) == ({"refused.paused": 60}, HOOK)


async def test_a_removed_trigger_stays_removed_despite_later_notes(triggers: TriggerStore) -> None:
    await triggers.create(made_trigger(HOOK))
    assert not await triggers.remove(made_trigger(HOOK).id, expected_revision=7)
    assert await triggers.remove(made_trigger(HOOK).id)

    await triggers.add_stats(made_trigger(HOOK), counts={"accepted": 1}, notes=[], fired_at=NOW)
    await triggers.pause(made_trigger(HOOK), PAUSE)

    assert await triggers.find(made_trigger(HOOK).id) is None


async def test_what_is_of_a_package_is_neither_edited_nor_removed(triggers: TriggerStore) -> None:
    trigger = Trigger("Digest", HOURLY)
    await triggers.pause(trigger, PAUSE)

    assert not await triggers.remove(trigger.id)
    assert not await triggers.replace(trigger, expected_revision=0)
    assert [each async for each in triggers.iter_runtime_triggers()] == []


async def test_a_page_goes_on_behind_the_last_id_and_stays_in_its_app(triggers: TriggerStore) -> None:
    for number in range(5):
        for app_id in ("acme", "globex"):
            await triggers.create(made_trigger(HOURLY.model_copy(update={"name": f"t{number}"}), app_id))

    first = [each.id async for each in triggers.iter_runtime_triggers(app_id="acme", limit=2)]
    rest = [each.id async for each in triggers.iter_runtime_triggers(app_id="acme", after=first[-1])]

    assert first + rest == [f"Digest/t{number}@acme" for number in range(5)]
    assert [each async for each in triggers.iter_runtime_triggers(kind="webhook")] == []
