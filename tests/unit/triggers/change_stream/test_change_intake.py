"""From a change event to run requests."""

from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Binary, Decimal128, ObjectId

from tests.unit.triggers.change_stream.specs import watch_of
from triggers.change_stream.change_intake import (
    MAX_KEY_LENGTH,
    ChangeEvent,
    build_change_request,
    change_apps,
    debounce_key,
    order_key,
)
from triggers.event_expressions import ExpressionError
from workers.store.run import RunRequest

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EVENT = {
    "operationType": "insert",
    "ns": {"db": "shop", "coll": "orders"},
    "documentKey": {"_id": "o1"},
    "fullDocument": {"tenant": "acme", "total": 7},
}


def change(**changes: Any) -> ChangeEvent:
    return ChangeEvent({"_id": {"_data": "82ab"}, **EVENT, **changes}, NOW)


def requests(event: ChangeEvent | None = None, **changes: Any) -> list[RunRequest]:
    watch = watch_of(**{"apps": () if "app_id" in changes else ("acme",), **changes})
    event = event or change()
    return [build_change_request(watch, app_id, event, NOW) for app_id in change_apps(watch, event)]


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


@pytest.mark.parametrize(
    "tenant",
    [None, "", {"a": 1}, ["acme"], True, "line\nbreak", "x" * 201, "nul\x00"],
    ids=lambda value: repr(value)[:12],
)
def test_an_event_without_a_usable_app_is_refused(tenant: Any) -> None:
    with pytest.raises(ExpressionError, match=r"fullDocument\.tenant"):
        requests(change(fullDocument={"tenant": tenant}), app_id="=fullDocument.tenant")


def test_a_number_names_an_app() -> None:
    (request,) = requests(change(fullDocument={"tenant": 12}), app_id="=fullDocument.tenant")

    assert request.app_id == "12"


def test_runs_of_one_document_share_a_key_and_follow_the_streams_order() -> None:
    first, second = requests(), requests(change(operationType="update"))
    other = requests(change(documentKey={"_id": "o2"}))
    elsewhere = requests(change(ns={"db": "shop", "coll": "refunds"}), collection=None)

    assert [each.order_key for each in first] == [each.order_key for each in second]
    assert len({each.order_key for each in (*first, *other, *elsewhere)}) == len((*first, *other, *elsewhere))
    assert {each.order_seq for each in first} <= {"82ab"}


def test_strict_is_one_key_of_a_trigger_and_app_and_none_is_no_key() -> None:
    def key(app_id: str, id_: str, **changes: Any) -> str | None:
        return order_key(watch_of(**changes), app_id, change(documentKey={"_id": id_}))

    assert key("acme", "o1", ordering="strict") == key("acme", "o2", ordering="strict")
    assert key("acme", "o1", ordering="strict") != key("globex", "o1", ordering="strict")
    assert key("acme", "o1", ordering="strict", name="other") != key("acme", "o1", ordering="strict")
    assert key("acme", "o1", ordering="none") is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"_id": "1"}, {"_id": 1}),
        ({"_id": "a/b"}, {"_id": 'a"/"b'}),
        ({"_id": {"a": 1, "b": 2}}, {"_id": {"a": 1, "b": 3}}),
        ({"_id": None}, {"_id": "null"}),
        ({"_id": 1, "shard": "a"}, {"_id": 1, "shard": "b"}),
        ({"_id": "x" * 1000}, {"_id": "x" * 1001}),
        ({"_id": ObjectId("65a000000000000000000000")}, {"_id": "65a000000000000000000000"}),
        ({"_id": Binary(b"\x00\xff")}, {"_id": "AP8="}),
        ({"_id": Decimal128("1")}, {"_id": "1"}),
    ],
)
def test_no_two_documents_share_a_key_and_no_key_is_long(one: Any, other: Any) -> None:
    keys = [debounce_key(watch_of(), "acme", change(documentKey=key)) for key in (one, other)]

    assert keys[0] != keys[1]
    assert all(len(key) <= MAX_KEY_LENGTH for key in keys)
