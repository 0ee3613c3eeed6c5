"""Happenings: one envelope for every kind, and the one way from there to a run request."""

from datetime import UTC, datetime
from typing import Any

import bson
import pytest

from triggers.event_expressions import ExpressionError
from triggers.occurrence import Occurrence, build_run_request, select_app
from triggers.register.trigger import Trigger
from workflows.package.trigger_specs.webhook_spec import WebhookSpec

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
SMALL = {"when": "arguments.amount <= `50`", "answer": {"verdict": "yes"}}
ANSWERS = {"approve": {"verdict": "yes"}, "pay": [SMALL, {"answer": {"verdict": "no"}}]}


def hook(**fields: Any) -> WebhookSpec:
    verify = {"scheme": "github", "secret": "env:S"}
    return WebhookSpec.model_validate({"name": "paid", "verify": verify, "ui_responses": ANSWERS, **fields})


def occurrence(trigger: Trigger, data: Any = None) -> Occurrence:
    return Occurrence(trigger, "acme", "msg_1", NOON, data)


def test_it_is_a_cloud_event_identified_by_app_workflow_and_name() -> None:
    event = occurrence(Trigger("Digest", hook())).as_cloud_event()

    assert event == {
        "specversion": "1.0",
        "id": "msg_1",
        "source": "/apps/acme/workflows/Digest/triggers/paid",
        "type": "unattended.trigger.webhook",
        "time": "2026-03-29T12:00:00+00:00",
    }


def test_its_payload_is_in_no_log() -> None:
    assert "s3cret" not in repr(occurrence(Trigger("Digest", hook()), {"a": "s3cret"}))


def test_expressions_become_the_input_and_the_message() -> None:
    spec = hook(input={"id": "=order.id", "kind": "paid"}, message="=order.note", priority=9)

    request = build_run_request(
        occurrence(Trigger("Digest", spec), {"order": {"id": 7, "note": "Hurry"}}), chain=("A/b",)
    )

    assert (request.input, request.message, request.priority) == ({"id": 7, "kind": "paid"}, "Hurry", 9)
    assert (request.app_id, request.chain) == ("acme", ("A/b",))
    assert request.dedupe_key == "Digest/paid/webhook/acme/msg_1"


def test_answers_for_people_come_with_the_run_where_no_package_has_them() -> None:
    from_package, made = Trigger("Digest", hook()), Trigger("Digest", hook(), "acme", 1)

    assert build_run_request(occurrence(from_package)).ui_responses is None
    assert build_run_request(occurrence(made)).ui_responses == ANSWERS
    assert bson.decode(bson.encode(build_run_request(occurrence(made)).ui_responses or {})) == ANSWERS


@pytest.mark.parametrize("tenant", [None, "", "a\nb", "x" * 201, ["acme"]])
def test_an_event_that_names_no_app_starts_nothing(tenant: Any) -> None:
    assert select_app("=tenant", {"tenant": "globex"}) == "globex"
    with pytest.raises(ExpressionError):
        select_app("=tenant", {"tenant": tenant})
