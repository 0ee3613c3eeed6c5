"""Tenants: a package that tries to reach another app's documents, through every source a variable can have."""

import asyncio
import json
from typing import Any

import pytest

from tests.integration.stage import Stage, relay

pytestmark = pytest.mark.integration

SECRET = "what only globex may know"
NOTHING = "nothing"
ATTACK = {"victim": "globex", "key": "k1", "app_id": "globex", "enterprise_id": "globex", "user_id": "globex"}

QUERIES: dict[str, dict[str, Any]] = {
    "naming_nobody": {"kind": "letter"},
    "naming_all": {"app_id": {"$exists": True}},
    "naming_it": {"app_id": "globex"},
    "naming_it_in_or": {"$or": [{"app_id": "globex"}, {"kind": "letter"}]},
    "naming_it_in_expr": {"$expr": {"$eq": ["$app_id", "globex"]}},
    "naming_it_by_pattern": {"app_id": {"$regex": "^glob"}},
    "naming_it_by_its_older_name": {"enterprise_id": "globex"},
    "by_payload": {"app_id": "{{victim}}"},
    "by_payload_in_or": {"$or": [{"app_id": "${victim}"}, {"enterprise_id": "{{runtime.victim}}"}]},
    "by_key": {"key": "{{key}}"},
    "by_id": {"_id": "{{key}}"},
    "by_the_runs_own_app_as_the_payload_calls_it": {"app_id": "{{runtime.app_id}}"},
    "by_the_runs_own_user_as_the_payload_calls_it": {"user_id": "{{user_id}}"},
}


def letters(stage: Stage) -> dict[str, str]:
    return {"database_name": stage.store.database.name, "collection": "letters"}


def database(stage: Stage) -> dict[str, Any]:
    named = {
        name: {"type": "data_reference", **letters(stage), "query_template": query, "fields": ["text"]}
        for name, query in QUERIES.items()
    }
    old = {"type": "database", **letters(stage), "search_by": "enterprise_id", "field": "text"}
    return {**named, "searched_by_enterprise": old}


def entities(stage: Stage) -> dict[str, Any]:
    names = ("key", "victim", "app_id", "enterprise_id", "user_id")
    return {
        f"entity_by_{name}": {"type": "data_entity", **letters(stage), "search_by": name, "fields": ["text"]}
        for name in names
    }


def others() -> dict[str, Any]:
    """Variables that read no document. A name like that of the run's owner gives them no access."""
    return {
        "app_id": {"type": "static", "value": "globex"},
        "enterprise_id": {"type": "runtime"},
        "user_id": {"type": "file", "path": "owner.yaml"},
        "chat_id": {"type": "state", "default": "globex"},
        "tenant": {"type": "config", "env_var": "TENANT", "default": "globex"},
    }


def spying_package(sources: dict[str, Any]) -> dict[str, Any]:
    inputs = {name: {"type": "string"} for name in ATTACK}
    package = relay("Spy", ["Spy"], inputs=inputs)
    package["context_variables"] = {
        "definitions": {
            name: {"type": "object" if source["type"] == "data_entity" else "string", "source": source}
            for name, source in sources.items()
        },
        "agents": {"Spy": {"variables": list(sources)}},
    }
    return package


async def secrets_of_globex(stage: Stage) -> None:
    owners: list[dict[str, Any]] = [{"app_id": "globex"}, {"enterprise_id": "globex"}, {"app_id": ["globex"]}]
    found_by = {"kind": "letter", "key": "k1", "victim": "globex", "user_id": "globex"}
    await stage.store.database["letters"].insert_many(
        [{"_id": f"k{index}", **found_by, "text": SECRET, **owner} for index, owner in enumerate(owners)]
    )


def text_of(value: Any) -> Any:
    return value.get("text", NOTHING) if isinstance(value, dict) else value


@pytest.mark.design("D4-76")
async def test_no_source_reads_a_document_of_another_app(stage: Stage) -> None:
    reading = {**database(stage), **entities(stage)}
    stage.package("Spy", {**spying_package({**reading, **others()}), "owner": "globex"})
    await secrets_of_globex(stage)
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Spy", app_id="acme", input=ATTACK)).run_id)
    own = await stage.wait_for_end((await stage.accept("Spy", app_id="globex", user_id="globex", input=ATTACK)).run_id)

    assert (run["state"], own["state"]) == ("succeeded", "succeeded"), (run["outcome"], own["outcome"])
    assert {name: text_of(own["context"][name]) for name in reading} == dict.fromkeys(reading, SECRET)
    assert {name: run["context"][name] for name in reading if run["context"][name]} == {}
    turns = await stage.store.committed_turns(run["_id"], up_to=run["turn"])
    assert SECRET not in json.dumps([run, *turns], default=str)
    assert SECRET not in stage.log()
    assert [run["context"][name] for name in ("app_id", "enterprise_id", "user_id")] == ["acme", "acme", None]


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers like a service that stores the letters of each app under its name."""
    asked = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
    body = json.dumps(SECRET if "globex" in asked else f"asked for {asked}").encode()
    head = (
        f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()
    writer.close()


async def test_an_external_service_is_asked_in_the_name_of_the_runs_own_app(stage: Stage) -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    url = f"http://{host}/letters/{{{{runtime.app_id}}}}?of={{{{enterprise_id}}}}&user={{{{runtime.user_id}}}}"
    letter = {"type": "external", "url": url, "cache": {"ttl_s": 60}}
    stage.package("Spy", spying_package({"letter": letter, **others()}))
    stage.package("Spy", {"owner": "globex"})
    await stage.start_worker(external_hosts=frozenset({host}))

    own = await stage.wait_for_end((await stage.accept("Spy", app_id="globex", user_id="u1", input=ATTACK)).run_id)
    run = await stage.wait_for_end((await stage.accept("Spy", app_id="acme", user_id="u1", input=ATTACK)).run_id)
    server.close()
    await server.wait_closed()

    assert own["context"]["letter"] == SECRET, (own["outcome"], stage.log())
    assert run["context"]["letter"] == "asked for /letters/acme?of=acme&user=u1"


async def test_no_source_reads_what_belongs_to_the_product_itself(stage: Stage) -> None:
    # Only a worker knows the product's own database; databases of the server are refused at load.
    places = ("runs", "turns", "usage", "api_keys", "triggers", "streams")
    reading = {
        f"of_{collection}": {
            "type": "data_reference",
            "database_name": stage.store.database.name,
            "collection": collection,
            "query_template": {"app_id": "{{app_id}}"},
            "fields": ["app_id", "state", "hash", "o"],
        }
        for collection in places
    }
    stage.package("Spy", spying_package(reading))
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Spy", input=ATTACK)).run_id)

    assert run["state"] == "succeeded", run["outcome"]
    assert {each: run["context"][each] for each in reading} == dict.fromkeys(reading, None)
    assert f"{stage.store.database.name}.api_keys belongs to Unattended itself" in stage.log()


POSE = """
def pose(values: dict, context_variables=None):
    for name in ("app_id", "enterprise_id", "victim", "key"):
        context_variables.set(name, "globex")
    for name in ("entity", "persisted"):
        context_variables.set(name, dict(values))
"""


def writer(stage: Stage, search_by: str, values: dict[str, Any]) -> None:
    place = {**letters(stage), "search_by": search_by}
    entity = {"type": "data_entity", **place, "fields": ["text", "app_id"], "write_strategy": "immediate"}
    persisted = {"type": "computed", "persist_to": {**place, "write_strategy": "on_success"}}
    package = spying_package({"entity": entity, "persisted": persisted})
    package["context_variables"]["definitions"]["persisted"]["type"] = "object"
    package["tools"] = {"tools": [{"agent": "Spy", "file": "pose.py", "function": "pose"}]}
    package["tools/pose.py"] = POSE
    stage.package("Spy", package)
    call = {"tool_calls": [{"name": "pose", "arguments": {"values": values}}]}
    stage.answers({"Spy": [call, {"text": "posed"}]})


async def letters_of_others(stage: Stage) -> list[dict[str, Any]]:
    found = stage.store.database["letters"].find({"app_id": {"$ne": "acme"}, "enterprise_id": {"$ne": "acme"}})
    documents: list[dict[str, Any]] = await found.sort("_id", 1).to_list(None)
    return documents


@pytest.mark.parametrize("search_by", ["key", "victim", "app_id", "enterprise_id"])
async def test_no_source_writes_a_document_of_another_app_or_without_owner(stage: Stage, search_by: str) -> None:
    writer(stage, search_by, {"text": "forged"})
    await secrets_of_globex(stage)
    await stage.start_worker()
    shared = {"_id": "shared", "key": "k1", "victim": "globex", "text": "all's"}
    if search_by in shared:
        await stage.store.database["letters"].insert_one(shared)
        refused = await stage.wait_for_end((await stage.accept("Spy", app_id="acme", input=ATTACK)).run_id)
        assert (refused["state"], refused["turn"]) == ("failed", 0)
        assert "has no `app_id`, so it is read-only here" in refused["outcome"]["reason"]
        assert await stage.store.database["letters"].find_one_and_delete({"_id": "shared"}) == shared
    before = await letters_of_others(stage)

    run = await stage.wait_for_end((await stage.accept("Spy", app_id="acme", input=ATTACK)).run_id)

    assert run["state"] == "succeeded", run["outcome"]
    assert await letters_of_others(stage) == before
    [own] = await stage.store.database["letters"].find({"text": "forged"}, {"_id": 0}).to_list(None)
    key = {search_by: {"key": "k1", "victim": "globex"}.get(search_by, "acme")}
    assert own == {"text": "forged", **(key if search_by == "enterprise_id" else {"app_id": "acme", **key})}


async def test_a_tool_cannot_give_a_document_to_another_app(stage: Stage) -> None:
    writer(stage, "key", {"text": "forged", "app_id": "globex"})
    await secrets_of_globex(stage)
    before = await letters_of_others(stage)
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Spy", app_id="acme", input=ATTACK)).run_id)

    assert (run["state"], run["outcome"]["kind"], run["turn"]) == ("failed", "package_error", 0)
    assert "app_id identifies the document or its owner, and cannot be set" in run["outcome"]["reason"]
    assert await letters_of_others(stage) == before
    assert await stage.store.database["letters"].find_one({"app_id": "acme"}) is None
