"""From a change event to run requests."""

from datetime import UTC, datetime
from typing import Any

import pytest

from triggers.change_stream.mapping import run_requests
from triggers.change_stream.watches import Watch
from triggers.payload import PayloadError
from workers.store.run import RunRequest
from workflows.package.trigger_specs.change import ChangeSpec

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EVENT = {"operationType": "insert", "documentKey": {"_id": "o1"}, "fullDocument": {"tenant": "acme", "total": 7}}


def requests(event: Any = EVENT, **changes: Any) -> list[RunRequest]:
    given = {"name": "paid", "database": "shop", "collection": "orders", **changes}
    return run_requests(Watch("Orders", ChangeSpec.model_validate(given)), event, event_id="82ab", fired_at=NOW)


def test_the_app_input_and_message_are_selected_from_the_event() -> None:
    (request,) = requests(
        app_id="=fullDocument.tenant",
        input={"id": "=documentKey._id", "n": 1},
        message="=to_string(fullDocument.total)",
    )

    assert request.app_id == "acme"
    assert request.input == {"id": "o1", "n": 1}
    assert request.message == "7"
    assert request.dedupe_key == "Orders/paid/database_condition/acme/82ab"


def test_listed_apps_get_a_run_each() -> None:
    assert [request.app_id for request in requests(apps=("acme", "globex"))] == ["acme", "globex"]


def test_a_condition_that_does_not_hold_asks_for_nothing_even_if_nothing_else_could_be_mapped() -> None:
    assert requests(when="fullDocument.total > `10`", app_id="=missing") == []


@pytest.mark.parametrize(
    "tenant",
    [None, "", {"a": 1}, ["acme"], True, "line\nbreak", "x" * 201, "nul\x00"],
    ids=lambda value: repr(value)[:12],
)
def test_an_event_without_a_usable_app_is_refused(tenant: Any) -> None:
    with pytest.raises(PayloadError, match=r"fullDocument\.tenant"):
        requests({**EVENT, "fullDocument": {"tenant": tenant}}, app_id="=fullDocument.tenant")


def test_a_number_names_an_app() -> None:
    (request,) = requests({**EVENT, "fullDocument": {"tenant": 12}}, app_id="=fullDocument.tenant")

    assert request.app_id == "12"


def test_a_delete_event_without_a_document_is_refused_and_not_a_crash() -> None:
    with pytest.raises(PayloadError):
        requests({"operationType": "delete", "documentKey": {"_id": 1}}, app_id="=fullDocument.tenant")
