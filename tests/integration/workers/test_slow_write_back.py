"""Write-back to a slow database: bounded, counted, and reported in the end; never retried for ever."""

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from pymongo.asynchronous.client_session import AsyncClientSession

from tests.integration.stage import Stage, relay, wait_until
from workers.store.claimed_runs import MongoRunRepository
from workers.store.context_documents import ContextDocuments
from workers.store.run import RunRequest, TriggerEvent
from workers.store.run_store import RunStore
from workflows.context.documents.document_access import DocumentWrite, WriteTooSlowError

pytestmark = pytest.mark.integration


def writing(store: RunStore, collection: str = "customers", **values: Any) -> DocumentWrite:
    return DocumentWrite("customer", "acme", store.database.name, collection, "customer_id", "c1", values)


async def slow_down_collection(store: RunStore, name: str) -> None:
    """Replaces the collection by one that takes half a minute to scan, however small."""
    if await store.database["base"].find_one() is None:
        await store.database["base"].insert_many([{"n": n, "app_id": "acme"} for n in range(4_000)])
    pairs = [{"$match": {"$expr": {"$eq": ["$n", {"$add": ["$$n", 0.5]}]}}}]
    await store.database.create_collection(
        name,
        viewOn="base",
        pipeline=[
            {"$lookup": {"from": "base", "let": {"n": "$n"}, "pipeline": pairs, "as": "found"}},
            {"$set": {"customer_id": {"$first": "$found.n"}}},
        ],
    )


async def fail_on_step(session: AsyncClientSession) -> None:
    raise AssertionError(f"the run must not be written, in {session}")


@pytest.mark.parametrize("others", [0, 3])
async def test_documents_not_found_in_time_are_named_and_nothing_is_written(store: RunStore, others: int) -> None:
    await slow_down_collection(store, "customers")
    documents = ContextDocuments(
        store.database.client, own_database=store.database.name, find_timeout_s=0.3 * (1 + others)
    )
    writes = [*(writing(store, f"quick{number}", n=1) for number in range(others)), writing(store, n=1)]
    began = time.monotonic()

    with pytest.raises(WriteTooSlowError) as slow:
        await documents.write_with(fail_on_step, writes)

    place = f"{store.database.name}.customers"
    assert str(slow.value) == (
        f"customer is not written to {place}: to find its customer_id took longer than {0.3 * (1 + others):.2g} s; "
        "the collection needs an index on it"
    )
    assert time.monotonic() - began < 5
    assert await store.database["quick0"].find_one() is None


async def test_an_insertion_looks_through_the_collection_once(store: RunStore) -> None:
    others = [{"app_id": "acme", "customer_id": f"other {n}"} for n in range(100)]
    await store.database["customers"].insert_many(others)
    documents = ContextDocuments(store.database.client, own_database=store.database.name)
    await store.database.command("profile", 2)

    await documents.write_with(assert_in_transaction, [writing(store, n=1)])

    await store.database.command("profile", 0)
    looked_at = [
        each.get("docsExamined", 0)
        async for each in store.database["system.profile"].find({"ns": f"{store.database.name}.customers"})
    ]
    assert sum(looked_at) == len(others)
    assert await store.database["customers"].find_one({"customer_id": "c1"}, {"_id": 0}) == {
        "app_id": "acme",
        "customer_id": "c1",
        "n": 1,
    }


async def assert_in_transaction(session: AsyncClientSession) -> None:
    assert session.in_transaction


async def test_writers_that_are_always_first_are_given_way_to_for_a_while_only(store: RunStore) -> None:
    """The run stands for them here: it is written as often as with the heartbeat of a very short lease."""
    event = TriggerEvent("api", "test", "1", fired_at=datetime.now(UTC))
    run_id = (await store.insert(RunRequest("acme", "Desk", event))).run_id
    documents = ContextDocuments(store.database.client, own_database=store.database.name, write_timeout_s=1)
    tries = 0

    async def step(session: AsyncClientSession) -> None:
        nonlocal tries
        tries += 1
        await store.runs.update_one({"_id": run_id}, {"$set": {"renewed": tries}})
        await store.runs.update_one({"_id": run_id}, {"$set": {"turn": 1}}, session=session)

    began = time.monotonic()
    with pytest.raises(WriteTooSlowError, match=r"for 1 s others wrote the same documents"):
        await documents.write_with(step, [writing(store, n=1)])

    assert 1 <= time.monotonic() - began < 5
    assert tries > 1
    assert await store.database["customers"].find_one() is None


async def test_a_lookup_shorter_than_half_a_beat_is_done_beside_the_heartbeat(store: RunStore) -> None:
    """One try meets a beat, the next one fits between two beats."""
    lease_s, lookup_s = 6, 0.4
    event = TriggerEvent("api", "test", "1", fired_at=datetime.now(UTC))
    ownership = MongoRunRepository(store, owner="w", lease_s=lease_s)
    claim = await ownership.claim((await store.insert(RunRequest("acme", "Desk", event))).run_id)
    assert claim is not None
    beats = asyncio.create_task(write_beats(store, claim.run_id, every_s=lease_s / 6))

    async def slow(session: AsyncClientSession) -> None:
        await asyncio.sleep(lookup_s)
        await store.runs.update_one({"_id": claim.run_id}, {"$inc": {"turn": 1}}, session=session)

    documents = ContextDocuments(store.database.client, own_database=store.database.name)
    for number in range(5):
        async with asyncio.timeout(3):
            await documents.write_with(slow, [writing(store, n=number)])
    beats.cancel()

    assert (await store.runs.find_one({"_id": claim.run_id}) or {})["turn"] == 5


async def write_beats(store: RunStore, run_id: str, *, every_s: float) -> None:
    while True:
        await store.runs.update_one({"_id": run_id}, {"$set": {"beat": time.monotonic()}})
        await asyncio.sleep(every_s)


async def desk(stage: Stage, agents: Sequence[str], *, strategy: str) -> None:
    database = stage.store.database
    await slow_down_collection(stage.store, "other labels")
    place = {"database": database.name, "collection": "labels", "search_by": "customer_id", "write_strategy": strategy}
    package = relay("Desk", list(agents), inputs={"customer_id": {"type": "string", "required": True}})
    label = {"type": "computed", "computation": "join('-', ['label', customer_id])", "inputs": ["customer_id"]}
    package["context_variables"] = {
        "definitions": {"label": {"type": "string", "source": {**label, "persist_to": {**place, "field": "text"}}}}
    }
    stage.package("Desk", package)


@pytest.mark.parametrize(
    ("strategy", "slow_since", "turns", "calls"),
    [
        ("immediate", "its first call", 0, 1),
        ("on_success", "its first call", 2, 2),
        ("on_success", "its beginning", 0, 0),  # it is searched before the first model call
    ],
)
async def test_a_document_search_longer_than_a_beat_fails_the_attempts(
    stage: Stage, strategy: str, slow_since: str, turns: int, calls: int
) -> None:
    await desk(stage, ["A", "B"], strategy=strategy)
    stage.answers({"A": [{"text": "ok", "delay_s": 3}], "B": [{"text": "ok"}]})
    await stage.start_worker(max_attempts=2)
    if slow_since == "its beginning":
        await slow_down_collection(stage.store, "labels")
    run_id = (await stage.accept("Desk", input={"customer_id": "c1"})).run_id
    if slow_since == "its first call":
        await wait_until("its model is asked", lambda: stage.usage_rows(run_id))
        await slow_down_collection(stage.store, "labels")

    run = await stage.reconcile_until_end(run_id, within_s=40)

    assert (run["state"], run["attempt"], run["turn"], run["worker_losses"]) == ("parked", 2, turns, 0)
    assert run["outcome"]["kind"] == "package_error"
    assert run["outcome"]["error"]["type"] == "WriteTooSlowError"
    assert run["outcome"]["reason"].endswith(
        "to find its customer_id took longer than 1 s; the collection needs an index on it"
    )
    assert [line["ended"] for line in run["history"]] == ["retry", "parked"]
    assert len(await stage.usage_rows(run_id)) == calls  # a stored turn calls no model again
    assert "lease_lost" not in stage.log()


async def test_others_get_on_while_a_run_looks_for_its_documents(stage: Stage) -> None:
    await desk(stage, ["A"], strategy="immediate")
    stage.answers({"A": [{"text": "ok", "delay_s": 3}]}, default={"text": "ok"})
    stage.package("Quick", relay("Quick", ["Q"]))
    await stage.start_worker()
    run_id = (await stage.accept("Desk", input={"customer_id": "c1"})).run_id

    await wait_until("its model is asked", lambda: stage.usage_rows(run_id))
    await slow_down_collection(stage.store, "labels")

    async def is_writing() -> bool:
        return await stage.store.turns.find_one({"run_id": run_id}) is not None

    await wait_until("the turn is about to be committed", is_writing)

    assert (await stage.wait_for_end((await stage.accept("Quick")).run_id, within_s=3))["state"] == "succeeded"
