"""Contexts of real runs: values from tools and from a database."""

import pytest

from tests.integration.stage import Stage, relay
from workflows.context.documents.query_templates import tenant_scope

pytestmark = pytest.mark.integration

ODD_TOOL = """
class Basket:
    def __str__(self):
        return "a basket of the tool's own"

def fill(context_variables=None):
    context_variables.set("basket", Basket())
    context_variables.set("$cost.eur", 12)
    context_variables.set("nested", {"$where": {"a.b": 1}})
    context_variables.set("plain", {"a": [1, "two"]})
    return "filled"
"""


async def test_a_context_is_stored_as_left_and_unstorable_values_as_text(stage: Stage) -> None:
    package = relay("Odd", ["A", "B"])
    package["tools"] = {"tools": [{"agent": "A", "file": "fill.py", "function": "fill"}]}
    package["tools/fill.py"] = ODD_TOOL
    stage.package("Odd", package)
    stage.answers({"A": [{"tool_calls": [{"name": "fill"}]}, {"text": "filled"}], "B": [{"text": "done"}]})
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Odd")).run_id)

    assert (run["state"], run["turn"]) == ("succeeded", 2)
    context = run["context"]
    assert context["basket"] == "a basket of the tool's own"
    assert context["$cost.eur"] == 12
    assert context["nested"] == {"$where": {"a.b": 1}}
    assert context["plain"] == {"a": [1, "two"]}
    [turn, _] = await stage.store.committed_turns(run["_id"], up_to=2)
    assert turn["context_changes"] == {name: context[name] for name in ("basket", "$cost.eur", "nested", "plain")}


@pytest.mark.design("D1-2")
async def test_a_database_variable_is_the_newest_document_of_the_runs_own_app(stage: Stage) -> None:
    database = stage.store.database
    order = {
        "type": "data_reference",
        "database_name": database.name,
        "collection": "orders",
        "query_template": {"app_id": "{{runtime.app_id}}"},
        "fields": ["status", "total"],
        "required": True,
    }
    package = relay("Clerk", ["Clerk"])
    package["context_variables"] = {
        "definitions": {"order": {"type": "object", "source": order}},
        "agents": {"Clerk": {"variables": ["order"]}},
    }
    stage.package("Clerk", package)
    await database["orders"].insert_many(
        [
            {"_id": 1, "app_id": "acme", "status": "older", "total": 2, "card": "4111"},
            {"_id": 2, "app_id": "acme", "status": "newest", "total": 3, "card": "4111"},
            {"_id": 3, "app_id": "globex", "status": "of another app", "total": 1, "card": "4111"},
        ]
    )
    await stage.start_worker()
    await database.command("profile", 2)

    run = await stage.wait_for_end((await stage.accept("Clerk", app_id="acme")).run_id)

    assert (run["state"], run["context"]["order"]) == ("succeeded", {"status": "newest", "total": 3})
    [asked] = await database["system.profile"].find({"op": "query", "ns": f"{database.name}.orders"}).to_list(None)
    assert asked["command"]["filter"] == {"$and": [{"app_id": "acme"}, tenant_scope("acme")]}
    assert asked["command"]["maxTimeMS"] == 9_000
    # The rest of a document is not sent by the database.
    assert asked["command"]["projection"] == {"_id": False, "status": True, "total": True}


async def test_without_a_document_of_its_app_a_run_fails_before_any_model_call(stage: Stage) -> None:
    database = stage.store.database
    source = {
        "type": "data_reference",
        "database_name": database.name,
        "collection": "orders",
        "query_template": {"app_id": "{{runtime.app_id}}"},
        "fields": ["status"],
        "required": True,
    }
    package = relay("Clerk", ["Clerk"])
    package["context_variables"] = {"definitions": {"order": {"type": "string", "source": source}}}
    stage.package("Clerk", package)
    await database["orders"].insert_one({"_id": 3, "app_id": "globex", "status": "of another app"})
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Clerk", app_id="acme")).run_id)

    assert (run["state"], run["outcome"]["kind"]) == ("failed", "package_error")
    assert "no document matches" in run["outcome"]["reason"]
    assert await stage.usage_rows(run["_id"]) == []
