"""Documents on a real MongoDB: reads and writes of one app, refusals, and atomic writes."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import ObjectId
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import OperationFailure

from workers.store.context_documents import ContextDocuments
from workers.store.run_store import RunStore
from workflows.context.documents.document_access import (
    DocumentRead,
    DocumentTarget,
    DocumentWrite,
    ReadRefusedError,
    WriteRefusedError,
)
from workflows.context.values.size_limits import to_plain_json


class UnknownType:
    """A type that no database knows. Its name is the same in every process that collects these tests."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = UnknownType()

pytestmark = pytest.mark.integration

OBJECT_ID = "65f1a2b3c4d5e6f708192a3b"


@pytest.fixture
def documents(store: RunStore) -> ContextDocuments:
    return ContextDocuments(store.database.client, own_database=store.database.name)


def reading(store: RunStore, query: dict[str, Any], *fields: str, app_id: str = "acme", **place: str) -> DocumentRead:
    where = {"database": store.database.name, "collection": "orders", **place}
    return DocumentRead(app_id=app_id, query=query, fields=fields or ("n",), **where)


def writing(store: RunStore, values: dict[str, Any], *, app_id: str = "acme", **changes: Any) -> DocumentWrite:
    write = DocumentWrite("order", app_id, store.database.name, "orders", "order_id", 17, values)
    return replace(write, **changes)


async def assert_in_transaction(session: AsyncClientSession) -> None:
    assert session.in_transaction


async def orders(store: RunStore) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = await store.database["orders"].find({}).sort("_id", 1).to_list(None)
    return [{name: value for name, value in each.items() if name != "_id"} for each in found]


@pytest.mark.parametrize(
    ("owner", "seen"),
    [
        ({}, True),
        ({"app_id": None, "enterprise_id": None}, True),
        ({"app_id": "acme"}, True),
        ({"enterprise_id": "acme"}, True),
        ({"app_id": ["globex", "acme"]}, True),
        ({"app_id": "acme", "enterprise_id": "globex"}, True),
        ({"app_id": "globex"}, False),
        ({"enterprise_id": "globex"}, False),
        ({"app_id": "globex", "enterprise_id": "acme"}, False),
        ({"app_id": ""}, False),
        ({"app_id": {"name": "acme"}}, False),
        ({"app_id": ["globex"]}, False),
        ({"app_id": ["globex", None]}, False),
        ({"enterprise_id": ["globex", None]}, False),
        ({"app_id": ["globex", None], "enterprise_id": "acme"}, False),
    ],
    ids=str,
)
async def test_a_document_of_another_app_is_never_read(
    store: RunStore, documents: ContextDocuments, owner: dict[str, Any], seen: bool
) -> None:
    await store.database["orders"].insert_one({"n": 1, **owner})

    for query in ({}, {"n": 1}, owner, {"$or": [{"n": 1}, {"app_id": {"$exists": True}}]}):
        assert await documents.read(reading(store, dict(query))) == ({"n": 1} if seen else None)


async def test_an_app_id_may_be_stored_as_an_object_id(store: RunStore, documents: ContextDocuments) -> None:
    await store.database["orders"].insert_one({"n": 1, "app_id": ObjectId(OBJECT_ID)})

    assert await documents.read(reading(store, {}, app_id=OBJECT_ID)) == {"n": 1}
    assert await documents.read(reading(store, {}, app_id="acme")) is None


@pytest.mark.design("D1-47")
async def test_the_newest_is_read_and_only_its_named_fields_are_sent(
    store: RunStore, documents: ContextDocuments
) -> None:
    await store.database["orders"].insert_many(
        [{"_id": 1, "n": 1, "card": "4111"}, {"_id": 2, "n": 2, "card": "4111"}, {"_id": 3, "n": 3, "app_id": "globex"}]
    )

    assert await documents.read(reading(store, {}, "n", "gone")) == {"n": 2}
    assert await documents.read(reading(store, {"n": 1}, "_id", "n")) == {"_id": 1, "n": 1}


@pytest.mark.parametrize("collection", ["runs", "turns", "usage", "api_keys", "triggers", "system.views"])
async def test_our_own_collections_are_closed(store: RunStore, documents: ContextDocuments, collection: str) -> None:
    with pytest.raises(ReadRefusedError, match="belongs to"):
        await documents.read(reading(store, {}, collection=collection))
    with pytest.raises(WriteRefusedError, match=r"order is not written to .* belongs to"):
        await documents.write_with(assert_in_transaction, [writing(store, {"n": 1}, collection=collection)])
    with pytest.raises(WriteRefusedError, match=r"order is not written to .* belongs to"):
        await documents.check_writable(DocumentTarget("order", "acme", store.database.name, collection, "n", 1))


@pytest.mark.parametrize("database", ["admin", "local", "config"])
async def test_the_servers_own_databases_are_closed(
    store: RunStore, documents: ContextDocuments, database: str
) -> None:
    with pytest.raises(ReadRefusedError, match="belongs to the database server"):
        await documents.read(reading(store, {}, database=database))
    with pytest.raises(WriteRefusedError, match="belongs to the database server"):
        await documents.write_with(assert_in_transaction, [writing(store, {"n": 1}, database=database)])


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({"$where": "true"}, r"\$where runs code"),
        ({"$expr": {"$function": {"body": "function() {return true}", "args": [], "lang": "js"}}}, "runs code"),
        ({"$bad": 1}, r"\$bad"),
        ({"n": {"$in": "text"}}, "array"),
        ({"n": 2**70}, "8-byte"),
        ({"n": "\ud800"}, "surrogate|UTF"),
        ({"n": UNKNOWN}, "Unknown"),
    ],
    ids=str,
)
async def test_a_query_that_cannot_be_asked_is_refused_with_the_reason(
    store: RunStore, documents: ContextDocuments, query: dict[str, Any], why: str
) -> None:
    with pytest.raises(ReadRefusedError, match=why):
        await documents.read(reading(store, query))


@pytest.mark.parametrize("place", [{"database": "a b.c"}, {"collection": "a$b"}, {"collection": ""}, {"database": ""}])
async def test_an_impossible_collection_name_is_refused(
    store: RunStore, documents: ContextDocuments, place: dict[str, str]
) -> None:
    with pytest.raises(ReadRefusedError):
        await documents.read(reading(store, {}, **place))
    with pytest.raises(WriteRefusedError, match="order is not written"):
        await documents.write_with(assert_in_transaction, [writing(store, {"n": 1}, **place)])


async def test_a_read_that_takes_the_server_too_long_is_stopped_there(store: RunStore) -> None:
    documents = ContextDocuments(store.database.client, own_database=store.database.name, max_read_ms=1)
    await store.database["orders"].insert_many([{"n": index, "text": "x" * 200} for index in range(20_000)])

    with pytest.raises(TimeoutError):
        await documents.read(reading(store, {"text": {"$regex": "(x+x+)+y"}}))


async def test_a_write_changes_its_apps_newest_document_or_inserts_one(
    store: RunStore, documents: ContextDocuments
) -> None:
    await store.database["orders"].insert_many(
        [
            {"_id": 1, "order_id": 17, "app_id": "acme", "n": "older"},
            {"_id": 2, "order_id": 17, "app_id": "acme", "n": "newer", "kept": True},
            {"_id": 3, "order_id": 17, "app_id": "globex", "n": "of another app"},
            {"_id": 4, "order_id": 17, "n": "shared"},
        ]
    )

    await documents.write_with(
        assert_in_transaction, [writing(store, {"n": "new"}), writing(store, {"n": "new"}, app_id="initech")]
    )

    assert await orders(store) == [
        {"order_id": 17, "app_id": "acme", "n": "older"},
        {"order_id": 17, "app_id": "acme", "n": "new", "kept": True},
        {"order_id": 17, "app_id": "globex", "n": "of another app"},
        {"order_id": 17, "n": "shared"},
        {"order_id": 17, "app_id": "initech", "n": "new"},
    ]


async def test_dates_and_ids_read_as_text_and_left_alone_keep_their_type(
    store: RunStore, documents: ContextDocuments
) -> None:
    born, friend = datetime(2026, 1, 2, tzinfo=UTC), ObjectId(OBJECT_ID)
    order = {"order_id": 17, "app_id": "acme", "born": born, "friend": friend, "seen": [born], "n": 1}
    await store.database["orders"].insert_one(dict(order))
    found = to_plain_json(await documents.read(reading(store, {"order_id": 17}, "born", "friend", "seen", "n")))

    await documents.write_with(assert_in_transaction, [writing(store, {**found, "n": 2, "new": None})])

    assert await orders(store) == [{**order, "n": 2, "new": None}]


@pytest.mark.parametrize("key", ["app_id", "enterprise_id"])
async def test_a_document_per_app_is_found_by_either_name(
    store: RunStore, documents: ContextDocuments, key: str
) -> None:
    await store.database["orders"].insert_one({"_id": 1, "n": "shared"})
    for n in (1, 2):
        await documents.write_with(assert_in_transaction, [writing(store, {"n": n}, key=key, key_value="acme")])

    assert await orders(store) == [{"n": "shared"}, {key: "acme", "n": 2}]


@pytest.mark.parametrize("key_value", ["A-17", OBJECT_ID, 17])
async def test_a_document_is_found_by_its_id(store: RunStore, documents: ContextDocuments, key_value: Any) -> None:
    for n in (1, 2):
        await documents.write_with(assert_in_transaction, [writing(store, {"n": n}, key="_id", key_value=key_value)])

    assert await store.database["orders"].find().to_list(None) == [{"_id": key_value, "app_id": "acme", "n": 2}]


async def test_an_object_id_in_text_finds_the_document_it_stands_for(
    store: RunStore, documents: ContextDocuments
) -> None:
    await store.database["orders"].insert_one({"_id": ObjectId(OBJECT_ID), "app_id": "acme"})

    await documents.write_with(assert_in_transaction, [writing(store, {"n": 1}, key="_id", key_value=OBJECT_ID)])

    assert await orders(store) == [{"app_id": "acme", "n": 1}]


async def test_a_key_held_by_another_app_is_refused_and_nothing_half_written(
    store: RunStore, documents: ContextDocuments
) -> None:
    database = store.database
    await database["orders"].create_index("order_id", unique=True)
    await database["orders"].insert_one({"order_id": 17, "app_id": "globex", "secret": "theirs"})
    await database["steps"].insert_one({"_id": "run", "turn": 0})

    async def step(session: AsyncClientSession) -> None:
        await database["steps"].update_one({"_id": "run"}, {"$set": {"turn": 1}}, session=session)

    first = writing(store, {"n": 1}, collection="elsewhere")
    with pytest.raises(WriteRefusedError, match=r"order is not written to .*\.orders: a unique index") as refused:
        await documents.write_with(step, [first, writing(store, {"n": 1})])

    assert "theirs" not in str(refused.value)
    assert await database["steps"].find_one() == {"_id": "run", "turn": 0}
    assert await database["elsewhere"].find_one() is None
    assert await orders(store) == [{"order_id": 17, "app_id": "globex", "secret": "theirs"}]


async def test_what_the_collection_forbids_is_refused_with_the_servers_reason(
    store: RunStore, documents: ContextDocuments
) -> None:
    await store.database.create_collection("orders", validator={"n": {"$type": "int"}})

    with pytest.raises(WriteRefusedError, match=r"order is not written to .* failed validation"):
        await documents.write_with(assert_in_transaction, [writing(store, {"n": "text"})])

    assert await orders(store) == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"values": {"n": UNKNOWN}}, r"order\.n is a UnknownType, which is not JSON"),
        ({"values": {"n": 2**70}}, "beyond 64 bits"),
        ({"values": {"n": {"$set": 1}}}, "must not begin with"),
        ({"values": {"n": "\ud800"}}, "lone surrogate"),
        ({"key_value": 2**70}, "8-byte"),
        ({"key_value": "\ud800"}, "surrogate|UTF"),
    ],
    ids=str,
)
async def test_what_cannot_be_stored_is_refused(
    store: RunStore, documents: ContextDocuments, changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(WriteRefusedError, match=why):
        await documents.write_with(assert_in_transaction, [writing(store, **{"values": {"n": 1}, **changes})])

    assert await orders(store) == []


async def test_runs_of_one_app_that_write_one_key_at_once_end_in_one_document(
    store: RunStore, documents: ContextDocuments
) -> None:
    await store.database["orders"].create_index([("app_id", 1), ("order_id", 1)], unique=True)

    await asyncio.gather(
        *(documents.write_with(assert_in_transaction, [writing(store, {f"n{n}": n})]) for n in range(8))
    )

    assert await orders(store) == [{"order_id": 17, "app_id": "acme", **{f"n{n}": n for n in range(8)}}]


async def test_a_passing_fault_of_the_store_is_tried_again_and_written_once(
    store: RunStore, documents: ContextDocuments
) -> None:
    steps = 0

    async def step(session: AsyncClientSession) -> None:
        nonlocal steps
        steps += 1
        await store.database["steps"].update_one({"_id": 1}, {"$inc": {"n": 1}}, upsert=True, session=session)
        if steps < 3:
            raise OperationFailure("conflict", 112, {"errorLabels": ["TransientTransactionError"]})

    await documents.write_with(step, [writing(store, {"n": 1})])

    assert steps == 3
    assert await store.database["steps"].find_one() == {"_id": 1, "n": 1}
    assert len(await orders(store)) == 1
