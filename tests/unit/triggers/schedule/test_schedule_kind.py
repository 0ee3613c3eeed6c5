"""The clock as a kind: when it is armed, why it is idle, and what is shown of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from triggers.register.trigger import Trigger
from triggers.register.trigger_record import Pause, TriggerRecord
from triggers.schedule.schedule_kind import KIND
from workers.settings import Settings
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec

NOW = datetime(2026, 6, 1, 11, 59, 30, tzinfo=UTC)
SETTINGS = Settings()


def declared_trigger(**spec: Any) -> Trigger:
    return Trigger("Digest", ScheduleSpec.model_validate({"name": "nightly", "apps": ["acme"], **spec}))


def record_of(trigger: Trigger, *, paused: Pause | None = None, **schedule: Any) -> TriggerRecord:
    return TriggerRecord(
        id=trigger.id,
        workflow="Digest",
        name="nightly",
        app_id=None,
        spec=None,
        revision=0,
        paused=paused,
        paused_apps={},
        counts={},
        notes=(),
        last_fired_at=None,
        document={"schedule": schedule},
    )


async def description(trigger: Trigger, record: TriggerRecord | None = None) -> dict[str, Any]:
    database: Any = None  # it is not asked
    return dict(await KIND.describe(trigger, record, database, SETTINGS))


def test_it_is_armed_for_its_next_time_when_it_is_made() -> None:
    kept = KIND.initial_fields(declared_trigger(cron="* * * * *"), NOW)["schedule"]

    assert kept["next_at"] == NOW + timedelta(seconds=30)
    assert "ended_at" not in kept


@pytest.mark.parametrize("clock", [{"at": "2026-06-01T11:59"}, {"every": "1h", "end": "2026-06-01T12:01Z"}])
def test_one_whose_last_time_has_passed_has_ended_from_the_start(clock: dict[str, str]) -> None:
    later = NOW + timedelta(minutes=5)

    kept = KIND.initial_fields(declared_trigger(**clock), later)["schedule"]

    assert kept["ended_at"] == later
    assert "next_at" not in kept


@pytest.mark.parametrize(
    ("apps", "why"),
    [
        (["acme"], None),
        ({"collection": "Apps"}, None),
        ([], "names no apps"),
        ({"collection": "runs"}, "belongs to Unattended itself"),
        ({"collection": "Apps", "filter": {"$where": "1"}}, "runs code"),
    ],
)
def test_it_shows_why_it_starts_nothing(apps: Any, why: str | None) -> None:
    said = KIND.inactive_reason(declared_trigger(every="1h", apps=apps), SETTINGS)

    assert (said is None) if why is None else (said is not None and why in said)


def test_a_key_of_one_app_cannot_have_the_apps_of_a_collection() -> None:
    assert KIND.app_key_refusal(declared_trigger(every="1h").spec) is None
    assert KIND.app_key_refusal(declared_trigger(every="1h", apps={"collection": "Apps"}).spec) is not None


async def test_the_next_ten_times_are_shown_in_its_zone_and_in_utc() -> None:
    shown = await description(declared_trigger(cron="30 2 * * *", timezone="Europe/Berlin"))

    assert len(shown["next"]) == 10
    for each in shown["next"]:
        local = datetime.fromisoformat(each["local"])
        assert local == each["utc"]
        assert each["utc"].utcoffset() == timedelta(0)
        assert (local.hour, local.minute) in ((2, 30), (3, 0))
    assert shown["nothing_next"] is None


async def test_it_is_shown_why_nothing_is_next() -> None:
    ended = declared_trigger(at="2020-01-01T00:00")
    paused = Pause(NOW, "ann")

    hourly = declared_trigger(every="1h")
    assert (await description(ended))["nothing_next"] == "its last time has passed"
    assert "is paused" in (await description(hourly, record_of(hourly, paused=paused, next_at=NOW)))["nothing_next"]
    assert "names no apps" in (await description(declared_trigger(every="1h", apps=[])))["nothing_next"]
    assert (await description(declared_trigger(every="1h", apps=[])))["next"] == []


async def test_lateness_is_that_of_the_time_that_the_store_waits_for() -> None:
    trigger = declared_trigger(every="1h")
    past, future = datetime.now(UTC) - timedelta(minutes=1), datetime.now(UTC) + timedelta(minutes=1)

    assert (await description(trigger, record_of(trigger, next_at=past)))["late_s"] >= 60
    assert (await description(trigger, record_of(trigger, next_at=future)))["late_s"] is None


def test_fired_by_hand_it_is_its_own_occurrence_with_expression_fields() -> None:
    trigger = declared_trigger(every="1h")

    one = KIND.manual_event(trigger, "acme", {"report": "daily"}, NOW)
    two = KIND.manual_event(trigger, "acme", {}, NOW)

    assert one.id.startswith("manual:")
    assert one.id != two.id
    assert one.nominal_at is None
    at = NOW.isoformat()
    assert one.data == {"nominal_at": at, "fired_at": at, "app_id": "acme", "report": "daily"}


def test_an_edit_that_leaves_the_clock_alone_moves_nothing() -> None:
    before = {"schedule": KIND.initial_fields(declared_trigger(cron="* * * * *"), NOW)["schedule"]}

    assert (
        KIND.initial_fields(declared_trigger(cron="* * * * *", overlap="allow"), NOW + timedelta(minutes=5), before)
        == {}
    )


def test_an_edited_clock_keeps_the_due_tick_and_starts_on_the_new_clock() -> None:
    noon = NOW + timedelta(seconds=30)
    before = {"schedule": KIND.initial_fields(declared_trigger(cron="0 * * * *"), NOW)["schedule"]}
    a_second_late = noon + timedelta(seconds=1)

    both = KIND.initial_fields(declared_trigger(cron="0 12 * * *"), a_second_late, before)["schedule"]
    other = KIND.initial_fields(declared_trigger(cron="30 * * * *"), a_second_late, before)["schedule"]

    assert both["next_at"] == noon
    assert other["next_at"] == noon + timedelta(minutes=30)


@pytest.mark.parametrize("damaged", [{}, {"schedule": None}, {"schedule": {"next_at": NOW}}, {"schedule": []}])
def test_an_edit_arms_what_was_damaged(damaged: dict[str, Any]) -> None:
    kept = KIND.initial_fields(declared_trigger(cron="0 12 * * *"), NOW, damaged)["schedule"]

    assert kept["next_at"] == NOW + timedelta(seconds=30)
