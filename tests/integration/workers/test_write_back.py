"""Write-back of real runs: when a variable is written, that it is written once, and the failures."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId

from tests.integration.stage import Stage, relay, wait_until
from workers.store.claimed_runs import MongoRunRepository
from workers.store.run import Claim, LeaseLostError, RunRequest, RunState, TriggerEvent
from workers.store.run_store import RunStore
from workflows.context.documents.document_access import DocumentWrite, WriteRefusedError

pytestmark = pytest.mark.integration

VISIT = """
def visit(context_variables=None):
    customer = dict(context_variables.get("customer") or {})
    customer["visits"] = (customer.get("visits") or 0) + 1
    context_variables.set("customer", customer)
    context_variables.set("greeting", {"text": f"visit {customer['visits']}"})
    return "noted"
"""
OUTCOME = {"kind": "completed", "reason": "", "error": None}


def desk(stage: Stage, agents: list[str], *, fields: tuple[str, ...] = ("visits", "name"), **variables: Any) -> None:
    """A counts a visit of the customer, which is written at once; the greeting is written on success."""
    place = {"database_name": stage.store.database.name, "search_by": "customer_id"}
    customer = {"type": "data_entity", **place, "collection": "customers", "fields": list(fields)}
    greeting = {"type": "data_entity", **place, "collection": "greetings", "fields": ["text"]}
    package = relay("Desk", agents, inputs={"customer_id": {"type": "string", "required": True}})
    package["tools"] = {"tools": [{"agent": "A", "file": "visit.py", "function": "visit"}]}
    package["tools/visit.py"] = VISIT
    package["context_variables"] = {
        "definitions": {
            "customer": {"type": "object", "source": {**customer, "write_strategy": "immediate"}},
            "greeting": {"type": "object", "source": {**greeting, "write_strategy": "on_success"}},
            **variables,
        }
    }
    stage.package("Desk", package)


def answers(stage: Stage, **by_agent: Any) -> None:
    stage.answers({"A": [{"tool_calls": [{"name": "visit"}]}, {"text": "noted"}], "B": [{"text": "done"}], **by_agent})


async def run_visit(stage: Stage, **request: Any) -> dict[str, Any]:
    accepted = await stage.accept("Desk", input={"customer_id": "c1"}, **request)
    return await stage.wait_for_end(accepted.run_id)


async def stored_documents(store: RunStore, collection: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = await store.database[collection].find({}, {"_id": 0}).sort("_id", 1).to_list(None)
    return found


@pytest.mark.design("D4-41")
async def test_what_one_run_writes_the_next_one_reads(stage: Stage) -> None:
    desk(stage, ["A", "B"])
    answers(stage)
    await stage.start_worker()

    first = await run_visit(stage)
    second = await run_visit(stage)

    assert [run["state"] for run in (first, second)] == ["succeeded", "succeeded"]
    assert second["context"]["customer"] == {"visits": 2}
    assert await stored_documents(stage.store, "customers") == [{"app_id": "acme", "customer_id": "c1", "visits": 2}]
    assert await stored_documents(stage.store, "greetings") == [
        {"app_id": "acme", "customer_id": "c1", "text": "visit 2"}
    ]
    assert "documents_written" in stage.log()


async def test_two_apps_with_the_same_key_stay_apart(stage: Stage) -> None:
    desk(stage, ["A"])
    answers(stage)
    await stage.start_worker()

    await run_visit(stage)
    await run_visit(stage, app_id="globex")
    await run_visit(stage, app_id="globex")

    assert await stored_documents(stage.store, "customers") == [
        {"app_id": "acme", "customer_id": "c1", "visits": 1},
        {"app_id": "globex", "customer_id": "c1", "visits": 2},
    ]


@pytest.mark.parametrize("owner", [{}, {"app_id": None}, {"enterprise_id": None}], ids=str)
async def test_a_document_without_owner_is_refused_before_any_model_call(stage: Stage, owner: dict[str, Any]) -> None:
    desk(stage, ["A", "B"])
    answers(stage)
    await stage.store.database["customers"].insert_one({"_id": 1, "customer_id": "c1", "visits": 99, **owner})
    await stage.start_worker()

    run = await run_visit(stage)

    assert (run["state"], run["outcome"]["kind"], run["turn"]) == ("failed", "package_error", 0)
    assert run["outcome"]["reason"].startswith("customer c1 has no `app_id`, so it is read-only here")
    assert await stage.usage_rows(run["_id"]) == []
    assert await stored_documents(stage.store, "customers") == [{"customer_id": "c1", "visits": 99, **owner}]


def till(stage: Stage) -> None:
    """The order is found by its `_id`, which the trigger sends under another name, and written back."""
    order = {
        "type": "data_entity",
        "database_name": stage.store.database.name,
        "collection": "orders",
        "query_template": {"_id": "{{runtime.order_id}}"},
        "fields": ["visits", "total"],
        "write_strategy": "on_success",
    }
    late = {"type": "computed", "computation": "order.total", "inputs": ["order"], "persist_to": "order.seen_total"}
    package = relay("Till", ["A"], inputs={"order_id": {"type": "string", "required": True}})
    package["tools"] = {"tools": [{"agent": "A", "file": "visit.py", "function": "visit"}]}
    package["tools/visit.py"] = VISIT.replace('"customer"', '"order"').replace("customer", "order")
    package["context_variables"] = {
        "definitions": {"order": {"type": "object", "source": order}, "late": {"type": "integer", "source": late}}
    }
    stage.package("Till", package)
    stage.answers({"A": [{"tool_calls": [{"name": "visit"}]}, {"text": "noted"}]})


@pytest.mark.parametrize("key", ["o-7", ObjectId("65f1a2b3c4d5e6f708192a3b")], ids=str)
async def test_an_order_is_found_by_a_query_on_its_id_and_written_back(stage: Stage, key: Any) -> None:
    till(stage)
    await stage.store.database["orders"].insert_one({"_id": key, "app_id": "acme", "visits": 4, "total": 12})
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Till", input={"order_id": str(key)})).run_id)

    assert run["state"] == "succeeded", run["outcome"]
    assert await stage.store.database["orders"].find().to_list(None) == [
        {"_id": key, "app_id": "acme", "visits": 5, "total": 12, "seen_total": 12}
    ]


@pytest.mark.parametrize(
    ("orders", "why"),
    [
        ([{"_id": "o-7", "visits": 1}], "order o-7 has no `app_id`, so it is read-only here"),
        (
            [{"_id": "o-7", "app_id": "globex"}],
            "order o-7 cannot be written back: app acme has no document with this _id",
        ),
        ([], "order o-7 cannot be written back: app acme has no document with this _id"),
    ],
    ids=["of nobody", "of another app", "missing"],
)
async def test_an_order_that_cannot_be_written_back_costs_nothing(
    stage: Stage, orders: list[dict[str, Any]], why: str
) -> None:
    till(stage)
    for order in orders:
        await stage.store.database["orders"].insert_one(dict(order))
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Till", input={"order_id": "o-7"})).run_id)

    assert (run["state"], run["outcome"]["kind"]) == ("failed", "package_error")
    assert run["outcome"]["reason"].startswith(why)
    assert await stage.usage_rows(run["_id"]) == []
    assert await stage.store.database["orders"].find().to_list(None) == orders


async def test_a_failed_run_keeps_immediate_writes_and_makes_none_of_success(stage: Stage) -> None:
    desk(stage, ["A", "B"])
    answers(stage, B=[{"error": {"status": 400}}])
    await stage.start_worker()

    run = await run_visit(stage)

    assert (run["state"], run["turn"]) == ("failed", 1)
    assert await stored_documents(stage.store, "customers") == [{"app_id": "acme", "customer_id": "c1", "visits": 1}]
    assert await stored_documents(stage.store, "greetings") == []


async def test_a_computed_value_is_persisted_though_no_tool_touched_it(stage: Stage) -> None:
    place = {"database": stage.store.database.name, "collection": "labels", "search_by": "customer_id"}
    label = {"type": "computed", "computation": "join('-', ['label', customer_id])", "inputs": ["customer_id"]}
    desk(
        stage,
        ["B"],
        label={"type": "string", "source": {**label, "persist_to": {**place, "field": "late"}}},
        early={
            "type": "string",
            "source": {**label, "persist_to": {**place, "field": "early", "write_strategy": "immediate"}},
        },
    )
    stage.package("Desk", {"tools": {"tools": []}})
    answers(stage)
    await stage.start_worker()

    run = await run_visit(stage)

    assert run["state"] == "succeeded", run["outcome"]
    assert await stored_documents(stage.store, "labels") == [
        {"app_id": "acme", "customer_id": "c1", "early": "label-c1", "late": "label-c1"}
    ]


async def test_a_turn_whose_worker_died_before_its_commit_is_written_once(stage: Stage) -> None:
    desk(stage, ["A", "B"])
    slow = [{"tool_calls": [{"name": "visit"}]}, {"text": "noted", "delay_s": 2}]
    answers(stage, A=slow, B=[{"text": "done", "delay_s": 2}])
    first = await stage.start_worker()
    run_id = (await stage.accept("Desk", input={"customer_id": "c1"})).run_id
    await wait_until("the tool has run", lambda: _calls(stage, run_id))

    first.kill()
    await first.wait()
    assert await stored_documents(stage.store, "customers") == []
    second = await stage.start_worker()
    reconciler = stage.reconciler()

    async def turn_committed() -> bool:
        await reconciler.run_pass()
        return bool((await stage.run(run_id))["turn"] == 1)

    await wait_until("the turn is taken again and committed", turn_committed)
    assert await stored_documents(stage.store, "customers") == [{"app_id": "acme", "customer_id": "c1", "visits": 1}]
    # Between the turns: the last owner of the run also writes the changes of the first turn.
    second.kill()
    await second.wait()
    await stage.start_worker()
    run = await stage.reconcile_until_end(run_id)

    assert (run["state"], run["turn"]) == ("succeeded", 2)
    assert await stored_documents(stage.store, "customers") == [{"app_id": "acme", "customer_id": "c1", "visits": 1}]
    assert await stored_documents(stage.store, "greetings") == [
        {"app_id": "acme", "customer_id": "c1", "text": "visit 1"}
    ]


async def _calls(stage: Stage, run_id: str) -> bool:
    return len(await stage.usage_rows(run_id)) >= 2  # the model is answering the result of the tool


async def test_a_refused_immediate_write_fails_the_run_and_leaves_the_turn_out(stage: Stage) -> None:
    desk(stage, ["A", "B"])
    answers(stage)
    customers = stage.store.database["customers"]
    await customers.create_index("customer_id", unique=True)
    await customers.insert_one({"app_id": "globex", "customer_id": "c1", "visits": 7})
    await stage.start_worker()

    run = await run_visit(stage)

    assert (run["state"], run["outcome"]["kind"], run["turn"]) == ("failed", "package_error", 0)
    assert run["outcome"]["reason"].startswith(f"customer is not written to {stage.store.database.name}.customers: ")
    assert await stored_documents(stage.store, "customers") == [{"app_id": "globex", "customer_id": "c1", "visits": 7}]
    assert await stored_documents(stage.store, "greetings") == []


async def test_a_run_whose_result_is_refused_at_the_end_has_failed(stage: Stage) -> None:
    desk(stage, ["A", "B"])
    answers(stage)
    await stage.store.database.create_collection("greetings", validator={"text": {"$type": "int"}})
    await stage.start_worker()

    run = await run_visit(stage)

    assert (run["state"], run["outcome"]["kind"], run["turn"]) == ("failed", "package_error", 2)
    assert "greeting is not written to" in run["outcome"]["reason"]
    assert run["usage"]["calls"] == 3
    assert await stored_documents(stage.store, "greetings") == []


async def test_a_field_that_was_not_declared_is_refused_by_name(stage: Stage) -> None:
    desk(stage, ["A", "B"], fields=("name",))
    answers(stage)
    await stage.start_worker()

    run = await run_visit(stage)

    assert (run["state"], run["outcome"]["kind"]) == ("failed", "package_error")
    assert "customer" in run["outcome"]["reason"]
    assert "'visits', which is not one of its fields" in run["outcome"]["reason"]
    assert await stored_documents(stage.store, "customers") == []


def pending_write(store: RunStore, **values: Any) -> DocumentWrite:
    return DocumentWrite("customer", "acme", store.database.name, "customers", "customer_id", "c1", values)


async def claim_run(store: RunStore) -> tuple[MongoRunRepository, Claim]:
    event = TriggerEvent("api", "test", "1", fired_at=datetime.now(UTC))
    ownership = MongoRunRepository(store, owner="first", lease_s=30)
    claim = await ownership.claim((await store.insert(RunRequest("acme", "Desk", event))).run_id)
    assert claim is not None
    return ownership, claim


async def test_a_stale_owner_writes_nothing(store: RunStore) -> None:
    ownership, stale = await claim_run(store)
    await store.runs.update_one({"_id": stale.run_id}, {"$set": {"state": "queued"}})
    assert await MongoRunRepository(store, owner="second", lease_s=30).claim(stale.run_id) is not None

    for write in (
        ownership.commit_turn(stale, number=1, turn={}, checkpoint={}, writes=[pending_write(store, by="stale")]),
        ownership.finish(
            stale, RunState.SUCCEEDED, {"outcome": OUTCOME, "usage": {}}, writes=[pending_write(store, by="stale")]
        ),
    ):
        with pytest.raises(LeaseLostError):
            await write

    assert await stored_documents(store, "customers") == []


async def test_a_turn_that_is_committed_already_writes_nothing_again(store: RunStore) -> None:
    ownership, claim = await claim_run(store)
    await ownership.commit_turn(claim, number=1, turn={}, checkpoint={}, writes=[pending_write(store, n=1)])

    with pytest.raises(LeaseLostError):
        await ownership.commit_turn(claim, number=1, turn={}, checkpoint={}, writes=[pending_write(store, n=2)])

    assert await stored_documents(store, "customers") == [{"app_id": "acme", "customer_id": "c1", "n": 1}]


async def test_a_refused_write_leaves_the_run_where_it_was(store: RunStore) -> None:
    ownership, claim = await claim_run(store)
    await store.database.create_collection("customers", validator={"n": {"$type": "int"}})
    bad = [pending_write(store, n=1), pending_write(store, n="text")]

    with pytest.raises(WriteRefusedError, match="customer is not written"):
        await ownership.commit_turn(claim, number=1, turn={}, checkpoint={"context": {"a": 1}}, writes=bad)
    with pytest.raises(WriteRefusedError, match="customer is not written"):
        await ownership.finish(claim, RunState.SUCCEEDED, {"outcome": OUTCOME, "usage": {}}, writes=bad)

    run = await store.find(claim.run_id)
    assert run is not None
    assert (run["state"], run["turn"], run["context"]) == ("running", 0, {})
    assert await stored_documents(store, "customers") == []


async def test_a_lease_that_is_renewed_meanwhile_does_not_disturb_a_write(store: RunStore) -> None:
    ownership, claim = await claim_run(store)
    done = asyncio.Event()

    async def renew() -> None:
        while not done.is_set():
            until_then = datetime.now(UTC) + timedelta(seconds=30)
            await store.runs.update_one({"_id": claim.run_id}, {"$set": {"lease.until": until_then}})
            await asyncio.sleep(0.005)  # otherwise the writes, which take longer, would hardly ever succeed

    renewing = asyncio.create_task(renew())
    for number in range(1, 6):
        await ownership.commit_turn(
            claim, number=number, turn={}, checkpoint={}, writes=[pending_write(store, n=number)]
        )
    done.set()
    await renewing

    run = await store.find(claim.run_id)
    assert run is not None
    assert run["turn"] == 5
    assert await stored_documents(store, "customers") == [{"app_id": "acme", "customer_id": "c1", "n": 5}]
