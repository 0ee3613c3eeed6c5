"""Databases of tools on a real MongoDB: allowed ones can be read and written, and no other is reached."""

import asyncio
import copy
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime
from typing import Any

import pytest
import yaml
from bson import SON, Code, ObjectId, encode
from bson.raw_bson import RawBSONDocument
from pymongo import AsyncMongoClient, ReturnDocument
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.cursor import AsyncCursor
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import DuplicateKeyError, InvalidOperation, OperationFailure

from tests.integration.stage import Stage, relay
from workers.store.run_store import RunStore
from workers.store.tool_client import CollectionCall, PackageCollection, ToolClient, ToolDatabase
from workers.store.tool_databases import ToolDatabases
from workers.store.tool_query_checks import copy_query
from workflows.compat.databases import DatabaseNotAllowedError

pytestmark = pytest.mark.integration

DRIVER = (AsyncMongoClient, AsyncDatabase, AsyncCollection, AsyncCursor)


@pytest.fixture
async def shop(store: RunStore, dropped: Callable[[str], None]) -> AsyncIterator[str]:
    """Makes an allowed database, and another one with the same document."""
    name = f"{store.database.name}_shop"
    for each in (name, f"{name}_other"):
        await store.database.client[each]["orders"].insert_one({"_id": 1, "app_id": "acme", "n": 7})
    yield name
    dropped(name)
    dropped(f"{name}_other")


@pytest.fixture
async def client(store: RunStore, shop: str) -> ToolClient:
    return databases(store, shop).open_client()


def databases(store: RunStore, *allowed: str) -> ToolDatabases:
    mongodb = store.database.client
    loop = asyncio.get_running_loop()
    return ToolDatabases(allowed, own_database=store.database.name, connect=lambda: mongodb, loop=loop)


async def test_an_allowed_database_works_as_with_the_driver(client: ToolClient, shop: str) -> None:
    orders = client[shop]["orders"]

    assert await orders.find_one({"_id": 1}) == {"_id": 1, "app_id": "acme", "n": 7}
    document: dict[str, Any] = {"n": 8, "at": datetime(2026, 1, 2)}  # noqa: DTZ001 -- as the driver gives it by itself
    inserted = await orders.insert_one(document)
    assert document["_id"] == inserted.inserted_id
    assert await orders.find_one(inserted.inserted_id) == document
    many: list[dict[str, Any]] = [{"n": n} for n in range(9, 12)]
    assert (await orders.insert_many(many)).inserted_ids == [each["_id"] for each in many]
    assert (await orders.update_one({"n": 8}, {"$inc": {"n": 100}})).modified_count == 1
    assert (await orders.update_many({"n": {"$gt": 8}}, [{"$set": {"big": True}}])).modified_count == 4
    assert (await orders.replace_one({"n": 9}, {"n": 9, "replaced": True})).modified_count == 1
    updated = await orders.find_one_and_update(
        {"n": 20}, {"$set": {"x": 1}}, upsert=True, return_document=ReturnDocument.AFTER
    )
    assert (updated["n"], updated["x"]) == (20, 1)
    assert (await orders.find_one_and_replace({"n": 20}, {"n": 21}))["n"] == 20
    assert (await orders.find_one_and_delete({"n": 21}))["n"] == 21
    assert await orders.count_documents({}) == 5
    assert await orders.estimated_document_count() == 5
    assert sorted(await orders.distinct("n")) == [7, 9, 10, 11, 108]
    assert (await orders.delete_many({"n": {"$in": [9, 10]}})).deleted_count == 2
    assert (await orders.delete_one({"n": 11})).deleted_count == 1
    assert await orders.create_index([("n", -1)], name="by_n", unique=True) == "by_n"
    assert set(await orders.index_information()) == {"_id_", "by_n"}
    with pytest.raises(DuplicateKeyError):
        await orders.insert_one({"n": 7})
    await orders.drop_index("by_n")
    assert await client[shop].list_collection_names() == ["orders"]


async def test_collections_of_the_server_are_not_listed(store: RunStore, client: ToolClient, shop: str) -> None:
    database = store.database.client[shop]
    await database.create_collection("seen", viewOn="orders", pipeline=[])  # the server stores views in system.views

    assert "system.views" in await database.list_collection_names()
    assert sorted(await client[shop].list_collection_names()) == ["orders", "seen"]


async def test_cursors_read_as_with_either_driver(client: ToolClient, shop: str) -> None:
    numbers = client.get_database(shop).get_collection("numbers")
    await numbers.insert_many([{"_id": n} for n in range(250)])
    pipeline = [{"$match": {"_id": {"$lt": 3}}}, {"$sort": {"_id": -1}}]

    assert [each["_id"] async for each in numbers.find().sort("_id", -1).skip(1).limit(2)] == [248, 247]
    assert [each["_id"] async for each in numbers.find({}, sort=[("_id", 1)], batch_size=7)] == list(range(250))
    cursor = numbers.find().sort([("_id", 1)])
    assert [each["_id"] for each in await cursor.to_list(2)] == [0, 1]
    assert [each["_id"] for each in await cursor.to_list(length=120)] == list(range(2, 122))
    assert len(await cursor.to_list(None)) == 128
    assert await cursor.to_list() == []
    assert [each["_id"] for each in await numbers.aggregate(pipeline).to_list(None)] == [2, 1, 0]
    assert [each["_id"] async for each in await numbers.aggregate(pipeline)] == [2, 1, 0]
    closed = numbers.find()
    await closed.to_list(1)
    await closed.close()
    assert await closed.to_list() == []
    assert (await numbers.find().sort("_id", 1).next())["_id"] == 0
    with pytest.raises(StopAsyncIteration):
        await anext(numbers.find({"_id": -1}))
    with pytest.raises(InvalidOperation, match="limit of a cursor that was read from already"):
        closed.limit(1)
    assert (await numbers.insert_one({"_id": -1}, session=None)).inserted_id == -1


async def test_names_lead_to_the_same_places(client: ToolClient, shop: str) -> None:
    orders = getattr(client, shop).orders

    assert (orders.name, orders.full_name, orders.database.name) == ("orders", f"{shop}.orders", shop)
    assert await orders.database.client[shop].orders.count_documents({}) == 1
    assert orders.archive.name == orders["archive"].name == "orders.archive"


async def test_a_tool_with_a_loop_of_its_own_is_served(client: ToolClient, shop: str) -> None:
    async def work() -> list[Any]:
        orders = client[shop].orders
        with pytest.raises(OperationFailure):
            await orders.update_one({}, {"$nothing": 1})
        return [await orders.find_one({"_id": 1}), *[each async for each in orders.find()]]

    found = await asyncio.to_thread(asyncio.run, work())

    assert [each["n"] for each in found] == [7, 7]


async def test_what_a_tool_sends_is_copied_in_its_own_thread(
    client: ToolClient, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()

    def copy_noted(value: Any) -> Any:
        threads.add(threading.get_ident())
        return copy_query(value)

    monkeypatch.setattr("workers.store.tool_databases.copy_query", copy_noted)

    async def work() -> int:
        orders = client[shop].orders
        await orders.insert_many([{"n": 1}, {"n": 2}])
        await orders.aggregate([{"$match": {"n": 1}}]).to_list()
        await orders.find().limit(1).to_list()
        return threading.get_ident()

    assert {await asyncio.to_thread(asyncio.run, work())} == threads


REFUSED_NAMES = [
    "{shop}_other",
    "{own}",
    "{OWN}",
    "admin",
    "local",
    "config",
    "ADMIN",
    "",
    "{shop}.orders",
    "$external",
]


WAYS: list[Callable[[ToolClient, str, str], Any]] = [
    lambda client, _, name: client[name],
    lambda client, _, name: getattr(client, name or "x"),
    lambda client, _, name: client.get_database(name),
    lambda client, shop, name: client[shop].client[name],
    lambda client, shop, name: client[shop].orders.database.client[name],
]


async def test_no_name_leads_to_another_database(client: ToolClient, store: RunStore, shop: str) -> None:
    own = store.database.name
    for name in REFUSED_NAMES:
        for open_it in WAYS:
            with pytest.raises(DatabaseNotAllowedError, match=f"is not allowed to packages, only {shop}"):
                open_it(client, shop, name.format(shop=shop, own=own, OWN=own.upper()))


class LyingKey(str):
    """A key that equals an allowed one, and sends another name."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash(SHOP_NAME[0])


SHOP_NAME = [""]


async def test_a_name_that_lies_is_refused(client: ToolClient, shop: str) -> None:
    SHOP_NAME[0] = shop
    for name in (LyingKey("admin"), b"admin", None, 5, ["admin"]):
        with pytest.raises(DatabaseNotAllowedError, match="the name of a database is a text"):
            client[name]  # type: ignore[index]  # -- what is no name is given on purpose
    with pytest.raises(DatabaseNotAllowedError, match="is not the name of a collection"):
        client[shop][LyingKey("system.users")]


async def test_our_own_database_is_refused_even_where_it_is_named(store: RunStore) -> None:
    names = (store.database.name, "admin")
    opened = databases(store, *names).open_client()

    for name in names:
        with pytest.raises(DatabaseNotAllowedError):
            opened[name]


async def test_without_databases_there_is_no_client(store: RunStore) -> None:
    with pytest.raises(DatabaseNotAllowedError, match=r"names none\. Write `compat: \{databases: "):
        databases(store).open_client()


UNSERVED = {
    AsyncMongoClient: (
        *("list_database_names", "list_databases", "start_session", "get_default_database", "drop_database", "watch"),
        *("server_info", "bulk_write", "options", "codec_options", "close", "address", "nodes", "topology_description"),
    ),
    AsyncDatabase: (
        *("command", "aggregate", "with_options", "dereference", "create_collection", "cursor_command", "watch"),
        *("list_collections", "validate_collection", "drop_collection", "codec_options"),
    ),
    AsyncCollection: (
        *("with_options", "rename", "watch", "drop", "bulk_write", "find_raw_batches", "aggregate_raw_batches"),
        *("options", "codec_options", "list_indexes", "create_search_index", "drop_indexes"),
    ),
}


async def test_whatever_else_the_driver_has_is_refused(client: ToolClient, shop: str) -> None:
    parts = {AsyncMongoClient: client, AsyncDatabase: client[shop], AsyncCollection: client[shop].orders}
    for driver, part in parts.items():
        served = {name for name in dir(type(part)) if not name.startswith("_")} | {"find", "aggregate"}
        for name in {*UNSERVED[driver], *(each for each in dir(driver) if not each.startswith("_"))} - served:
            if driver is AsyncCollection and callable(getattr(driver, name)) and name not in UNSERVED[driver]:
                continue  # the supported methods
            with pytest.raises(DatabaseNotAllowedError):
                getattr(part, name)
            assert not hasattr(part, name)
    cursor = client[shop].orders.find()
    for name in ("collection", "session", "clone", "rewind", "explain", "add_option", "address", "where"):
        with pytest.raises(DatabaseNotAllowedError):
            getattr(cursor, name)


Step = Mapping[str, Any]
PIPELINES: list[tuple[list[Step], str]] = [
    ([{"$out": {"db": "{other}", "coll": "x"}}], "$out must name its collection as text"),
    ([{"$out": {"": "x", "coll": "x"}}], "$out must name its collection as text"),
    ([{"$merge": {"into": {"db": "{other}", "coll": "x"}}}], "$merge must name its collection as text"),
    ([{"$lookup": {"from": {"db": "{other}", "coll": "orders"}, "as": "x", "pipeline": []}}], "$lookup must name"),
    ([{"$lookup": {"from": "orders", "db": "{other}", "as": "x", "pipeline": []}}], "$lookup must name"),
    ([{"$unionWith": {"db": "{other}", "coll": "orders"}}], "$unionWith must name its collection as text"),
    ([{"$graphLookup": {"from": {"db": "{other}", "coll": "orders"}}}], "$graphLookup must name"),
    ([{"$facet": {"a": [{"$out": {"db": "{other}", "coll": "x"}}]}}], "$out must name its collection as text"),
    ([{"$unionWith": {"coll": "x", "pipeline": [{"$out": {"db": "{other}", "coll": "x"}}]}}], "$out must name"),
    ([{"$lookup": {"from": "x", "pipeline": [{"$merge": {"into": {"db": "{other}"}}}]}}], "$merge must name"),
    ([{"$unionWith": "system.profile"}], "'system.profile' is not the name of a collection"),
    ([{"$out": "system.views"}], "'system.views' is not the name of a collection"),
    ([{"$currentOp": {}}], "$currentOp is not one of the stages"),
    ([{"$listLocalSessions": {}}], "$listLocalSessions is not one of the stages"),
    ([{"$changeStream": {"allChangesForCluster": True}}], "$changeStream is not one of the stages"),
    ([{"$match": {"$where": "true"}}], "$where runs code on the database server"),
    ([{"$match": {"a": [{"b": {"$function": {"body": "f"}}}]}}], "$function runs code on the database server"),
    ([{"$match": {}, "$out": {"db": "{other}", "coll": "x"}}], "a mapping with one operator"),
    ([SON([("$out", SON([("db", "x"), ("coll", "x")]))])], "$out must name its collection as text"),
    ([RawBSONDocument(encode({"$out": {"db": "y", "coll": "x"}}))], "$out must name its collection as text"),
]


def fill_query(value: Any, other: str) -> Any:
    if isinstance(value, str):
        return value.replace("{other}", other)
    if isinstance(value, RawBSONDocument | SON):
        return value
    if isinstance(value, Mapping):
        return {key: fill_query(item, other) for key, item in value.items()}
    return [fill_query(item, other) for item in value] if isinstance(value, list) else value


async def test_no_pipeline_leaves_the_database(client: ToolClient, store: RunStore, shop: str) -> None:
    for pipeline, words in PIPELINES:
        stages = fill_query(pipeline, f"{shop}_other")
        for cursor in (client[shop].orders.aggregate(stages), client[shop].orders.aggregate(pipeline=stages)):
            with pytest.raises(DatabaseNotAllowedError) as caught:
                await cursor.to_list(None)
            assert words in str(caught.value)
    assert await store.database.client[f"{shop}_other"].list_collection_names() == ["orders"]


async def test_pipelines_within_the_database_work(client: ToolClient, shop: str) -> None:
    orders = client[shop].orders
    joined = {"$lookup": {"from": "orders", "localField": "_id", "foreignField": "_id", "as": "same"}}

    [found] = await orders.aggregate([joined, {"$unionWith": {"coll": "nothing"}}]).to_list(None)
    assert found["same"] == [{"_id": 1, "app_id": "acme", "n": 7}]
    assert await orders.aggregate([{"$out": "copies"}]).to_list(None) == []
    await orders.aggregate(
        [
            {"$merge": {"into": "copies"}},
        ]
    )
    await orders.aggregate([{"$out": "more"}])  # sent when awaited, as in the driver
    assert await client[shop].more.count_documents({}) == 1
    assert await client[shop].copies.count_documents({}) == 1


class ChangingMapping(dict[str, Any]):
    """A mapping that changes at each read."""

    def __init__(self, *reads: Mapping[str, Any]) -> None:
        super().__init__(reads[0])
        self._reads = list(reads)

    def items(self) -> Any:
        return (self._reads.pop(0) if len(self._reads) > 1 else self._reads[0]).items()


class SmugglingText:
    """A text that encodes other bytes than it shows."""

    _type_marker = 101
    raw = encode({"$where": "true"})


async def test_what_is_sent_is_what_was_checked(client: ToolClient, store: RunStore, shop: str) -> None:
    orders = client[shop].orders
    stage = ChangingMapping({"$match": {}}, {"$out": {"db": f"{shop}_other", "coll": "x"}})

    assert len(await orders.aggregate([stage]).to_list(None)) == 1
    with pytest.raises(DatabaseNotAllowedError, match="encodes itself"):
        await orders.find_one({"a": SmugglingText()})
    deep: dict[str, Any] = {}
    for _ in range(200):
        deep = {"$and": [deep]}
    with pytest.raises(DatabaseNotAllowedError, match="more than 100 levels"):
        await orders.find_one(deep)
    assert await store.database.client[f"{shop}_other"].list_collection_names() == ["orders"]


REFUSED_CALLS: list[tuple[Callable[[PackageCollection], Any], str]] = [
    (lambda orders: orders.find_one({}, session=object()), "find_one takes no session here"),
    (lambda orders: orders.count_documents({}, object()), "count_documents is given too many arguments"),
    (lambda orders: orders.count_documents({}, aggregate="system.users"), "count_documents takes no aggregate here"),
    (lambda orders: orders.aggregate([], **{"$db": "admin"}).to_list(None), "aggregate takes no $db here"),
    (lambda orders: orders.find_one({"$where": "true"}), "$where runs code on the database server"),
    (lambda orders: orders.find_one({"a": {"$where": Code("true")}}), "$where runs code on the database server"),
    (lambda orders: orders.delete_many({"$expr": {"$function": {}}}), "$function runs code"),
    (lambda orders: orders.update_one({}, [{"$set": {"a": {"$function": {}}}}]), "$function runs code"),
]


async def test_what_a_method_is_not_given(client: ToolClient, shop: str) -> None:
    for call, words in REFUSED_CALLS:
        with pytest.raises(DatabaseNotAllowedError) as caught:
            await call(client[shop].orders)
        assert words in str(caught.value)


async def test_a_collection_of_the_server_is_refused(client: ToolClient, shop: str) -> None:
    for name in ("$cmd", "system.users", "system.profile", "a$b", "", "$cmd.aggregate"):
        for open_it in (client[shop].__getitem__, client[shop].get_collection):
            with pytest.raises(DatabaseNotAllowedError, match="is not the name of a collection that tools may use"):
                open_it(name)


def attributes(part: Any) -> dict[str, Any]:
    """Returns the attributes of an object, including those with one underscore; refused ones are left out."""
    names = {name for name in dir(part) if not name.startswith("__")} | {
        "_client",
        "_database",
        "_collection",
        "_cursor",
    }
    return {name: value for name in names if (value := getattr(part, name, None)) is not None}


async def test_no_attribute_leads_to_the_driver(client: ToolClient, shop: str) -> None:
    orders = client[shop].orders
    cursor = orders.find()
    await cursor.to_list(1)
    waiting = [client, client[shop], orders, cursor, copy.copy(client), await orders.insert_one({})]
    seen: set[int] = set()
    kept: list[Any] = []  # so that no id repeats

    while waiting:
        part = waiting.pop()
        kept.append(part)
        assert not isinstance(part, DRIVER)
        if id(part) in seen or isinstance(part, str | bytes | int | ObjectId | type(None)):
            continue
        seen.add(id(part))
        if type(part).__module__.startswith(("workers.", "workflows.", "pymongo.")):
            waiting += attributes(part).values()
    assert {type(each) for each in kept} >= {ToolClient, ToolDatabase, PackageCollection}


async def test_what_the_parts_hold_refuses_as_they_do(client: ToolClient, store: RunStore, shop: str) -> None:
    access = client[shop].orders._access
    refused = [
        CollectionCall("admin", "users", "find_one"),
        CollectionCall(store.database.name, "runs", "find_one"),
        CollectionCall(shop, "system.users", "find_one"),
        CollectionCall(shop, "orders", "drop"),
        CollectionCall(shop, "orders", "with_options"),
    ]
    for operation in refused:
        with pytest.raises(DatabaseNotAllowedError):
            await access.run(operation)
        with pytest.raises(DatabaseNotAllowedError):
            await access.open(operation)
    with pytest.raises(DatabaseNotAllowedError):
        await access.open(CollectionCall(shop, "orders", "find", changes=(("clone", ()),)))
    with pytest.raises(DatabaseNotAllowedError):
        await access.list_collections("admin")


async def test_an_error_does_not_lead_to_the_driver(client: ToolClient, shop: str) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: client[shop].orders.insert_one({"_id": 1}),
        lambda: client[shop].orders.update_one({}, {"$nothing": 1}),
        lambda: client[shop].orders.find({"$nothing": 1}).to_list(None),
        lambda: client[shop].orders.find_one({"a": object()}),
        lambda: client[shop].orders.find_one({"$where": "1"}),
    ]
    for call in calls:
        with pytest.raises(Exception) as caught:  # noqa: PT011 -- whichever it is
            await call()
        assert caught.value.__cause__ is caught.value.__context__ is None
        traceback = caught.value.__traceback__
        while traceback is not None:
            place = traceback.tb_frame
            if place.f_code.co_filename != __file__:
                held = place.f_locals.values()
                assert not [each for each in held if isinstance(each, (*DRIVER, ToolDatabases))], place
            traceback = traceback.tb_next


TOOL = """
import sys
from core.core_config import get_mongo_client
from mozaiksai.core.core_config import get_mongo_client as the_same

async def look(shop: str, others: list[str]):
    found = [(await get_mongo_client()[shop]["orders"].find_one({"_id": 1}))["n"]]
    for other in others:
        try:
            found.append(await the_same()[other]["orders"].find_one({}))
        except Exception as error:
            found.append(type(error).__name__)
    return found + [name for name in sys.modules if name.startswith(("core", "mozaiksai"))]

def look_in_thread(shop: str):
    import asyncio
    async def count():
        return await get_mongo_client()[shop].orders.count_documents({"app_id": "acme"})
    return asyncio.run(count())
"""


@pytest.mark.parametrize("environment", ["development", "production"])
async def test_a_worker_gives_tools_what_its_file_allows(stage: Stage, shop: str, environment: str) -> None:
    package = relay("Clerk", ["Clerk"])
    package["tools"] = {
        "tools": [{"agent": "Clerk", "file": "look.py", "function": each} for each in ("look", "look_in_thread")]
    }
    package["tools/look.py"] = TOOL
    # The declaration of a package gives no permission.
    place = {"database_name": f"{shop}_other", "collection": "orders"}
    other = {"type": "data_reference", **place, "query_template": {"app_id": "{{runtime.app_id}}"}, "fields": ["n"]}
    package["context_variables"] = {"definitions": {"v": {"type": "object", "source": other}}}
    package["unattended"] = {"compat": {"databases": [f"{shop}_other"]}}
    stage.package("Clerk", package)
    others = [f"{shop}_other", stage.store.database.name, "admin", "local", "config"]
    calls = [
        {"name": "look", "arguments": {"shop": shop, "others": others}},
        {"name": "look_in_thread", "arguments": {"shop": shop}},
    ]
    stage.answers({"Clerk": [{"tool_calls": calls}, {"text": "done"}]})
    file = stage.folder / "operator.yaml"
    file.write_text(yaml.safe_dump({"compat": {"databases": [shop]}}), encoding="utf-8")
    await stage.start_worker(config=file, environment=environment, environ=dict(os.environ))

    run = await stage.wait_for_end((await stage.accept("Clerk")).run_id)

    assert run["state"] == "succeeded", run["outcome"]
    [turn] = await stage.store.committed_turns(run["_id"], up_to=1)
    texts = [each["text"] for event in turn["events"] for each in event.get("tool_results", ())]
    assert [yaml.safe_load(each) for each in texts] == [[7, *["DatabaseNotAllowedError"] * 5], 1]


async def test_a_worker_without_a_file_gives_none(stage: Stage, shop: str) -> None:
    package = relay("Clerk", ["Clerk"])
    package["tools"] = {"tools": [{"agent": "Clerk", "file": "look.py", "function": "look"}]}
    package["tools/look.py"] = TOOL
    stage.package("Clerk", package)
    call = {"name": "look", "arguments": {"shop": shop, "others": []}}
    stage.answers({"Clerk": [{"tool_calls": [call]}, {"text": "done"}]})
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Clerk")).run_id)

    [turn] = await stage.store.committed_turns(run["_id"], up_to=1)
    [text] = [each["text"] for event in turn["events"] for each in event.get("tool_results", ())]
    assert "Write `compat: {databases: [NAME]}` into ./unattended.yaml" in text
