"""Which triggers look at which stream, and what each stream asks the server for."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.triggers.change_stream.specs import spec, trigger, watch_of
from triggers.change_stream.stream_plan import (
    StreamPlan,
    group_by_stream,
    guard_stages,
    match_stage,
    plan_stream,
    stream_database,
    stream_id_of,
)
from triggers.change_stream.watched_triggers import ChangeTrigger, inactive_reason, make_change_trigger
from triggers.register.trigger import Trigger
from workers.store.reserved_collections import RESERVED_COLLECTIONS
from workflows.package.trigger_specs.change_spec import PROTECTED_FIELDS
from workflows.package.trigger_specs.run_finished_spec import RunFinishedSpec

OWN = "unattended"
MATCH = {"$match": {"fullDocument.n": 1}}
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def plan(*watches: ChangeTrigger) -> StreamPlan:
    return plan_stream("shop", watches, own_database=OWN)


@pytest.mark.parametrize(
    ("changes", "stream"),
    [
        ({}, "shop"),
        ({"collection": None, "operations": ("delete",)}, "shop"),
        ({"full_document": "off"}, "shop/full_document=off"),
        ({"full_document": "required"}, "shop/full_document=when_available"),
        ({"full_document": "when_available", "pre_image": "required"}, None),
        ({"pre_image": "when_available"}, "shop/pre_image=when_available"),
        ({"pipeline": (MATCH,)}, "shop/Orders/paid"),
        ({"pipeline": (MATCH,), "app_id": "acme", "apps": ()}, "shop/Orders/paid"),
    ],
)
def test_a_streams_id_follows_from_what_cannot_be_shared(changes: dict[str, Any], stream: str | None) -> None:
    made = stream_id_of(trigger(**changes), own_database=OWN)

    assert made == (stream or "shop/full_document=when_available/pre_image=when_available")
    assert stream_database(str(made)) == "shop"


def test_triggers_of_one_name_and_two_apps_have_a_pipeline_each() -> None:
    streams = {
        stream_id_of(Trigger("O", spec(apps=(), pipeline=(MATCH,)), app_id=app), own_database=OWN) for app in "ab"
    }

    assert len(streams) == 2


def test_ends_of_runs_come_from_a_stream_of_our_own_database() -> None:
    after = Trigger("Orders", RunFinishedSpec.model_validate({"name": "after", "workflow": "Digest"}))

    assert stream_id_of(after, own_database=OWN) == "unattended.runs"
    assert stream_database("unattended.runs") == OWN


def test_triggers_on_one_database_share_a_stream() -> None:
    watches = [watch_of(), watch_of(name="b", collection="c"), watch_of(name="d", database="crm")]

    streams = group_by_stream(watches, own_database=OWN)

    assert {name: [each.id for each in group] for name, group in streams.items()} == {
        "shop": ["Orders/paid", "Orders/b"],
        "crm": ["Orders/d"],
    }


def test_the_filter_names_each_collection_once_grouped_by_operations() -> None:
    watches = (
        watch_of(operations=("insert",)),
        watch_of(operations=("delete", "insert")),
        watch_of(collection="refunds", operations=("update",)),
        watch_of(collection="carts", operations=("insert", "delete")),
    )

    assert match_stage(watches, own_database=OWN) == {
        "$match": {
            "$or": [
                {"ns.coll": {"$in": ["carts", "orders"]}, "operationType": {"$in": ["delete", "insert"]}},
                {"ns.coll": {"$in": ["refunds"]}, "operationType": {"$in": ["update"]}},
                {"operationType": "invalidate"},
            ]
        }
    }


def test_a_whole_database_of_ours_is_watched_without_our_collections() -> None:
    ours = match_stage([watch_of(collection=None, database=OWN)], own_database=OWN)
    other = match_stage([watch_of(collection=None)], own_database=OWN)

    assert ours["$match"]["$or"][0]["ns.coll"] == {"$nin": sorted(RESERVED_COLLECTIONS)}
    assert "ns.coll" not in other["$match"]["$or"][0]


def test_a_name_that_looks_like_an_operator_stays_a_value() -> None:
    stage = match_stage([watch_of(collection="$where")], own_database=OWN)

    assert stage["$match"]["$or"][0]["ns.coll"] == {"$in": ["$where"]}


def test_documents_are_asked_for_only_where_they_are_needed() -> None:
    assert plan(watch_of(operations=("insert",)), watch_of(operations=("update",))).full_document == "updateLookup"
    assert plan(watch_of(operations=("insert", "delete"))).full_document is None
    assert plan(watch_of(full_document="off")).full_document is None
    assert plan(watch_of(full_document="required")).full_document == "whenAvailable"
    assert plan(watch_of(pre_image="required")).pre_image == "whenAvailable"
    assert plan(watch_of()).pre_image is None


def test_a_stream_resumes_from_now_only_when_all_its_triggers_allow_it() -> None:
    assert plan(watch_of(on_history_lost="resume_now")).resume_now
    assert not plan(watch_of(on_history_lost="resume_now"), watch_of()).resume_now


def test_a_trigger_matches_by_collection_operation_and_time_of_creation() -> None:
    event = {"operationType": "insert", "ns": {"db": "shop", "coll": "orders"}}

    assert watch_of().is_for_event(event, NOW)
    assert watch_of(collection=None).is_for_event(event, NOW)
    assert not watch_of(collection="refunds").is_for_event(event, NOW)
    assert not watch_of(operations=("delete",)).is_for_event(event, NOW)
    made = make_change_trigger(trigger(made_for="acme"), since=NOW + timedelta(milliseconds=900))
    assert made.is_for_event(event, NOW)  # cluster time is in whole seconds
    assert not made.is_for_event(event, NOW - timedelta(seconds=1))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"database": OWN, "collection": "runs"}, "belongs to Unattended"),
        ({"database": "local", "collection": "oplog.rs"}, "belongs to the database server"),
        ({"database": "admin", "collection": None}, "belongs to the database server"),
        ({"apps": ()}, "neither apps nor app_id"),
    ],
)
def test_what_would_feed_itself_or_has_no_app_is_inactive_with_the_reason(changes: dict[str, Any], said: str) -> None:
    assert said in str(inactive_reason(trigger(**changes), own_database=OWN))


def test_another_collection_of_our_database_or_all_may_be_watched() -> None:
    for collection in ("orders", None):
        assert inactive_reason(trigger(database=OWN, collection=collection), own_database=OWN) is None


def test_a_pipeline_keeps_what_the_stream_goes_on_from() -> None:
    kept = dict.fromkeys(PROTECTED_FIELDS, 1)
    (match,) = guard_stages([MATCH])
    (project,) = guard_stages([{"$project": {"fullDocument.n": 1, "ns.coll": 1}}])
    (computed,) = guard_stages([{"$project": {"n": "$fullDocument.n"}}])
    (without,) = guard_stages([{"$project": {"fullDocument": 0, "a": {"b": 0}}}])
    (replaced,) = guard_stages([{"$replaceWith": "$fullDocument"}])

    assert match == {"$match": {"$or": [MATCH["$match"], {"operationType": "invalidate"}]}}
    assert project == {"$project": {"fullDocument.n": 1, **kept}}
    assert computed == {"$project": {"n": "$fullDocument.n", **kept}}
    assert without == {"$project": {"fullDocument": 0, "a": {"b": 0}}}
    assert replaced["$replaceWith"]["$mergeObjects"][0] == "$fullDocument"


@pytest.mark.parametrize(
    ("pipeline", "said"),
    [
        ([{"$out": "elsewhere"}], "write one of"),
        ([{"$lookup": {"from": "users"}}], "write one of"),
        ([{"$redact": "$$KEEP"}], "write one of"),
        ([{"$match": {}, "$project": {}}], "write one of"),
        ([{"$match": {"$where": "true"}}], "executed"),
        ([{"$set": {"a": {"b": [{"$function": {}}]}}}], "executed"),
        ([{"$set": {"a": {"$_internalX": 1}}}], "executed"),
        ([{"$project": {"_id": 0}}], "must not change _id"),
        ([{"$project": {"_id": False, "a": 1}}], "must not change _id"),
        ([{"$unset": "documentKey"}], "must not change documentKey"),
        ([{"$unset": ["a", "ns.coll"]}], "must not change ns"),
        ([{"$set": {"operationType": "insert"}}], "must not change operationType"),
        ([{"$addFields": {"clusterTime": 1}}], "must not change clusterTime"),
        ([MATCH] * 21, "at most 20"),
    ],
)
def test_a_pipeline_that_writes_joins_executes_or_drops_the_id_is_refused(
    pipeline: list[dict[str, Any]], said: str
) -> None:
    with pytest.raises(ValidationError, match=said):
        spec(pipeline=pipeline)


def test_a_pipeline_of_endless_depth_is_refused_and_not_a_crash() -> None:
    deep: Any = 1
    for _ in range(500):
        deep = {"a": deep}
    with pytest.raises(ValidationError, match="deeper than"):
        spec(pipeline=[{"$set": {"x": deep}}])


@pytest.mark.parametrize("name", ["a.b", "a b", "a/b", "$a", "x" * 64, "nul\x00"])
def test_a_database_that_cannot_be_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="is not a database name"):
        spec(database=name)
