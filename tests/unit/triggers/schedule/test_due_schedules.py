"""Reading what is due: a spec is checked once, and a large one is not kept."""

from datetime import UTC, datetime
from typing import Any

import pytest

from triggers.register.trigger_record import spec_document
from triggers.schedule.due_schedules import MAX_CACHED_SPEC_LENGTH, DueReader
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec
from workflows.package.trigger_specs.trigger_spec import SPEC_BY_TYPE

NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def document(**spec: Any) -> dict[str, Any]:
    made = ScheduleSpec.model_validate({"name": "made", "every": "1m", **spec})
    return {
        "_id": "Digest/made@acme",
        "workflow": "Digest",
        "name": "made",
        "app_id": "acme",
        "revision": 1,
        "spec": spec_document(made),
        "schedule": {"next_at": NOON},
    }


@pytest.mark.parametrize(("size", "checks"), [(10, 1), (MAX_CACHED_SPEC_LENGTH, 3)])
def test_a_spec_is_checked_once_unless_it_is_large(size: int, checks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    read = SPEC_BY_TYPE["schedule"].model_validate_json

    def read_and_note(text: str) -> Any:
        checked.append(text)
        return read(text)

    monkeypatch.setattr(ScheduleSpec, "model_validate_json", read_and_note)
    reading = DueReader()

    for _ in range(3):
        due = reading.read_due(document(input={"text": "x" * size}), {})
        assert due is not None
        assert due.next_at == NOON

    assert len(checked) == checks


def test_an_edit_is_read_anew() -> None:
    reading = DueReader()
    reading.read_due(document(), {})

    edited = reading.read_due({**document(every="1h"), "revision": 2}, {})

    assert edited is not None
    assert edited.trigger.revision == 2
    assert edited.trigger.spec.every is not None  # type: ignore[union-attr]  # -- a schedule
