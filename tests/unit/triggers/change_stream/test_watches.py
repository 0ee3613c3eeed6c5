"""Which triggers look at which database, and the filter that serves them."""

from typing import Any

from tests.trigger_packages import package_with
from triggers.change_stream.watches import (
    Watch,
    all_resume_now,
    declared_watches,
    match_stage,
    needs_lookup,
)
from workflows.package.trigger_specs.change import ChangeSpec


def spec(**changes: Any) -> ChangeSpec:
    given = {"name": "paid", "database": "shop", "collection": "orders", "apps": ("acme",), **changes}
    return ChangeSpec.model_validate(given)


def watch(**changes: Any) -> Watch:
    return Watch("Orders", spec(**changes))


def test_triggers_on_one_database_share_a_stream() -> None:
    packages = package_with(spec(), spec(name="b", collection="c"), spec(name="d", database="crm"))

    declared = declared_watches(packages, own_database="unattended")

    assert {name: [each.id for each in watches] for name, watches in declared.by_database.items()} == {
        "shop": ["Digest/paid", "Digest/b"],
        "crm": ["Digest/d"],
    }


def test_what_would_feed_itself_or_has_no_app_is_refused_with_the_reason() -> None:
    own = [spec(name=name, database="unattended", collection=name) for name in ("runs", "turns", "usage", "streams")]

    declared = declared_watches(package_with(*own, spec(name="nobody", apps=())), own_database="unattended")

    assert declared.by_database == {}
    assert set(declared.refused) == {f"Digest/{name}" for name in ("runs", "turns", "usage", "streams", "nobody")}


def test_another_collection_of_our_database_may_be_watched() -> None:
    packages = package_with(spec(database="unattended", collection="orders"))

    assert "unattended" in declared_watches(packages, own_database="unattended").by_database


def test_the_filter_names_each_collection_once_with_all_its_operations() -> None:
    watches = (
        watch(operations=("insert",)),
        watch(operations=("delete", "insert")),
        watch(collection="refunds", operations=("update",)),
    )

    assert match_stage(watches) == {
        "$match": {
            "$or": [
                {"ns.coll": "orders", "operationType": {"$in": ["delete", "insert"]}},
                {"ns.coll": "refunds", "operationType": {"$in": ["update"]}},
                {"operationType": "invalidate"},
            ]
        }
    }


def test_a_name_that_looks_like_an_operator_stays_a_value() -> None:
    stage = match_stage((watch(collection="$where"),))

    assert stage["$match"]["$or"][0]["ns.coll"] == "$where"


def test_the_document_is_looked_up_only_when_updates_are_wanted() -> None:
    assert needs_lookup((watch(operations=("insert",)), watch(operations=("update",))))
    assert not needs_lookup((watch(operations=("insert", "delete")),))


def test_a_stream_resumes_from_now_only_when_all_its_triggers_say_so() -> None:
    assert all_resume_now((watch(on_history_lost="resume_now"),))
    assert not all_resume_now((watch(on_history_lost="resume_now"), watch()))


def test_a_trigger_is_concerned_by_its_collection_and_operations() -> None:
    event = {"operationType": "insert", "ns": {"db": "shop", "coll": "orders"}}

    assert watch().concerns(event)
    assert not watch(collection="refunds").concerns(event)
    assert not watch(operations=("delete",)).concerns(event)
