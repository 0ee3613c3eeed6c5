"""The record of a trigger: what was written is read again, and what cannot be read stops nothing."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triggers.register.trigger import Trigger, trigger_id
from triggers.register.trigger_record import app_field_name, read_record, spec_document
from workflows.package.trigger_specs.change_spec import ChangeSpec
from workflows.package.trigger_specs.form_spec import FormSpec
from workflows.package.trigger_specs.run_finished_spec import RunFinishedSpec
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec
from workflows.package.trigger_specs.trigger_spec import TriggerSpec
from workflows.package.trigger_specs.webhook_spec import WebhookSpec

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
VERIFY = {
    "scheme": "hmac",
    "secret": "env:S",
    "header": "X-Sig",
    "timestamp_header": "X-Time",
    "signed": "{timestamp}{body}",
}
SMALL = {"when": "arguments.amount <= `50`", "answer": {"verdict": "yes"}}
SPECS: list[tuple[type[TriggerSpec], dict[str, Any]]] = [
    (ScheduleSpec, {"cron": "0 6 * * *", "timezone": "Europe/Berlin", "jitter": "30s", "misfire": {"grace": "2m"}}),
    (ScheduleSpec, {"at": "2026-12-24T18:00", "start": "2026-01-01"}),
    (ScheduleSpec, {"every": "1h", "apps": {"collection": "Apps", "field": "tenant", "filter": {"a.b": {"$gt": 1}}}}),
    (ChangeSpec, {"database": "shop", "pipeline": [{"$match": {"fullDocument.a": 1}}], "debounce": 0.25}),
    (WebhookSpec, {"verify": VERIFY, "rate": "5/s", "dedupe": "=a.b"}),
    (FormSpec, {"inputs": {"e.mail": {"format": "email", "default": None}}}),
    (RunFinishedSpec, {"workflow": "Digest", "outcome": "any"}),
    (FormSpec, {"inputs": {"a": {}}, "ui_responses": {"pay": [SMALL, {"answer": {}}], "Card": {"verdict": "yes"}}}),
]


def document(**fields: Any) -> dict[str, Any]:
    return {"_id": "Digest/x@acme", "workflow": "Digest", "name": "x", "app_id": "acme", **fields}


@pytest.mark.parametrize(("model", "body"), SPECS)
def test_a_spec_is_read_as_it_was_written(model: type[TriggerSpec], body: dict[str, Any]) -> None:
    spec = model.model_validate({"name": "x", **body, "type": model.model_fields["type"].default})

    record = read_record(document(spec=spec_document(spec), revision=3))

    assert record.spec == spec
    assert record.trigger == Trigger("Digest", spec, "acme", 3)


def test_a_default_is_not_kept_so_that_a_later_version_may_change_it() -> None:
    kept = spec_document(ScheduleSpec(name="x", every="1h"))  # type: ignore[arg-type]  # as an author writes it

    assert "overlap" not in kept["json"]


@pytest.mark.parametrize(
    "kept", [{"type": "pigeon", "json": "{}"}, {"type": "schedule", "json": '{"name": "x", "every": "1h", "new": 1}'}]
)
def test_a_spec_of_a_newer_version_is_no_trigger_and_no_error(kept: dict[str, Any]) -> None:
    record = read_record(document(spec=kept))

    assert (record.spec, record.trigger) == (None, None)


def test_a_pause_of_one_app_is_none_of_the_others() -> None:
    pause = {"at": NOON, "by": "ada", "note": "holidays", "reason": "operator"}
    record = read_record(document(paused_apps={app_field_name("a.b"): {"app_id": "a.b", "pause": pause}}))

    paused = record.pause_of("a.b")
    assert paused is not None
    assert (paused.by, paused.note) == ("ada", "holidays")
    assert record.pause_of("a") is None
    assert record.pause_of(None) is None


def test_counts_are_flat_whatever_the_store_made_of_their_dots() -> None:
    record = read_record(document(counts={"accepted": 2, "skipped": {"overlap": 3, "late": 1}}))

    assert record.counts == {"accepted": 2, "skipped.overlap": 3, "skipped.late": 1}


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_an_app_is_a_field_of_its_own_whatever_is_in_its_name(one: str, other: str) -> None:
    fields = (
        app_field_name(one.encode("utf-8", "ignore").decode()),
        app_field_name(other.encode("utf-8", "ignore").decode()),
    )

    assert not any(sign in field for field in fields for sign in ".$\x00")
    assert (fields[0] == fields[1]) is (one.encode("utf-8", "ignore") == other.encode("utf-8", "ignore"))


def test_no_app_can_take_the_id_of_another_trigger() -> None:
    ids = {
        trigger_id("Digest", "x"),
        trigger_id("Digest", "x", app_id="acme"),
        trigger_id("Digest", "x", app_id="acme/x@y"),
        trigger_id("Digest", "x", app_id="acme@"),
    }

    assert len(ids) == 4
    assert all(each.count("/") == 1 for each in ids)
