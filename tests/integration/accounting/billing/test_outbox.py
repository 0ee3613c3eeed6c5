"""The outbox on a real MongoDB: batches come with the totals, claims are exclusive."""

import asyncio
from typing import Any

import pytest
from pymongo.asynchronous.client_session import AsyncClientSession

from accounting.billing.outbox import BY_DUE, ClaimedBatch, Outbox, OutboxState, read_outbox_state
from accounting.billing.outbox_batches import (
    drop_batches,
    find_batches,
    find_last_delivery,
    find_unknown_ids,
    replay_batches,
)
from tests.unit.accounting.billing.rows import row
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration


@pytest.fixture
async def outbox(store: RunStore) -> Outbox:
    outbox = Outbox(store.database)
    await outbox.ensure_indexes()
    return outbox


async def claim_batch(outbox: Outbox) -> ClaimedBatch:
    batch = await outbox.claim()
    assert batch is not None
    return batch


async def documents(store: RunStore) -> list[dict[str, Any]]:
    return await store.database["outbox"].find().sort("_id", 1).to_list(None)


async def make_due(store: RunStore, batch: ClaimedBatch) -> None:
    """Ends the claim or the pause of a batch."""
    await store.database["outbox"].update_one({"_id": batch.id}, [{"$set": {"due_at": "$$NOW"}}])


async def add_in_transaction(outbox: Outbox, session: AsyncClientSession, *, fail: bool) -> None:
    async with await session.start_transaction():
        await outbox.add([row(number) for number in range(100)], session)
        if fail:
            raise RuntimeError


async def test_a_transaction_that_is_rolled_back_leaves_no_batch(store: RunStore, outbox: Outbox) -> None:
    async with store.database.client.start_session() as session:
        with pytest.raises(RuntimeError):
            await add_in_transaction(outbox, session, fail=True)
        assert await documents(store) == []

        await add_in_transaction(outbox, session, fail=False)

    assert sum(batch["events"] for batch in await documents(store)) == 100


async def test_the_first_batch_may_be_made_in_a_transaction(store: RunStore) -> None:
    async with store.database.client.start_session() as session:
        await add_in_transaction(Outbox(store.database), session, fail=False)

    assert (await read_outbox_state(store.database)).pending > 0


async def test_a_batch_is_claimed_by_one_sender_only(store: RunStore, outbox: Outbox) -> None:
    await outbox.add([row(number) for number in range(300)], None)

    batches = [batch for batch in await asyncio.gather(*(outbox.claim() for _ in range(30))) if batch is not None]

    assert sorted(batch.id for batch in batches) == [batch["_id"] for batch in await documents(store)]


async def test_the_claim_of_a_dead_sender_is_taken_over_with_the_same_bytes(store: RunStore, outbox: Outbox) -> None:
    await outbox.add([row()], None)
    first = await claim_batch(outbox)
    assert await outbox.claim() is None

    await make_due(store, first)
    second = await claim_batch(outbox)

    assert (second.id, second.body) == (first.id, first.body)
    assert second.claim != first.claim


async def test_a_sender_that_lost_its_claim_can_only_mark_delivery(store: RunStore, outbox: Outbox) -> None:
    await outbox.add([row()], None)
    stale = await claim_batch(outbox)
    await make_due(store, stale)
    owner = await claim_batch(outbox)

    await outbox.mark_failed(stale, "it answered 500", retry_in_s=None)
    await outbox.release(stale)
    assert await outbox.claim() is None

    await outbox.mark_delivered(stale)
    await outbox.mark_failed(owner, "it answered 500", retry_in_s=0)

    [batch] = await documents(store)
    assert (batch["state"], batch["failures"]) == ("delivered", 0)


async def test_the_batch_that_has_been_due_the_longest_comes_first(store: RunStore, outbox: Outbox) -> None:
    for number in range(3):
        await outbox.add([row(number)], None)
    first = await claim_batch(outbox)
    await outbox.mark_failed(first, "it answered 500", retry_in_s=0)

    order = [await claim_batch(outbox) for _ in range(3)]

    made = [batch["_id"] for batch in await documents(store)]
    assert [first.id, *(batch.id for batch in order)] == [made[0], made[1], made[2], made[0]]


async def test_a_claim_reads_one_batch_however_many_wait(store: RunStore, outbox: Outbox) -> None:
    """Also if no batch is due: a dead endpoint has many, and senders ask every second."""
    await outbox.add([row(number) for number in range(1_500)], None)
    later = {"$set": {"due_at": {"$add": ["$$NOW", 3_600_000]}}}
    await store.database["outbox"].update_many({}, [later])

    plan = await store.database.command(
        "explain",
        {
            "find": "outbox",
            "filter": {"state": "pending", "$expr": {"$lte": ["$due_at", "$$NOW"]}},
            "sort": {"due_at": 1},
            "hint": BY_DUE,
            "limit": 1,
        },
        verbosity="executionStats",
    )

    assert plan["executionStats"]["totalKeysExamined"] <= 2
    assert plan["executionStats"]["totalDocsExamined"] <= 1


async def test_the_state_counts_what_waits_and_what_is_dead(store: RunStore, outbox: Outbox) -> None:
    assert await read_outbox_state(store.database) == OutboxState(0, 0, 0.0)
    for number in range(3):
        await outbox.add([row(number)], None)
    await outbox.mark_failed(await claim_batch(outbox), "it answered 500", retry_in_s=None)
    await outbox.mark_delivered(await claim_batch(outbox))
    await store.database["outbox"].update_one(
        {"state": "pending"}, [{"$set": {"created_at": {"$subtract": ["$$NOW", 90_000]}}}]
    )

    state = await read_outbox_state(store.database)

    assert (state.pending, state.dead) == (1, 1)
    assert 90 <= state.oldest_pending_age_s < 120
    assert await find_last_delivery(store.database) is not None


async def test_dead_batches_are_replayed_or_dropped_delivered_ones_replayed(store: RunStore, outbox: Outbox) -> None:
    for number in range(3):
        await outbox.add([row(number)], None)
    dead, delivered = await claim_batch(outbox), await claim_batch(outbox)
    await outbox.mark_failed(dead, "it answered 500", retry_in_s=None)
    await outbox.mark_delivered(delivered)

    assert await find_unknown_ids(store.database, [dead.id, delivered.id, "batch_x"]) == ["batch_x"]
    assert await find_unknown_ids(store.database, [dead.id, delivered.id], states=["dead"]) == [delivered.id]
    assert await drop_batches(store.database, [delivered.id]) == 0
    assert await replay_batches(store.database, None) == 1
    assert await replay_batches(store.database, [delivered.id]) == 1

    bodies = {batch.id: batch.body for batch in [await claim_batch(outbox) for _ in range(3)]}
    assert (bodies[dead.id], bodies[delivered.id]) == (dead.body, delivered.body)
    assert {batch["state"] for batch in await find_batches(store.database, limit=10)} == {"pending"}


async def test_a_batch_that_waits_for_its_next_try_may_be_replayed_now(store: RunStore, outbox: Outbox) -> None:
    await outbox.add([row()], None)
    batch = await claim_batch(outbox)
    await outbox.mark_failed(batch, "it answered 500", retry_in_s=3_600)
    assert await outbox.claim() is None

    await replay_batches(store.database, [batch.id])

    again = await claim_batch(outbox)
    assert (again.id, again.failures) == (batch.id, 0)


async def test_dropped_batches_are_gone(store: RunStore, outbox: Outbox) -> None:
    for number in range(3):
        await outbox.add([row(number)], None)
    for _ in range(2):
        await outbox.mark_failed(await claim_batch(outbox), "it answered 500", retry_in_s=None)

    assert await drop_batches(store.database, None) == 2
    assert [batch["state"] for batch in await documents(store)] == ["pending"]


async def test_delivered_batches_are_deleted_after_a_week_and_no_others(store: RunStore, outbox: Outbox) -> None:
    """The TTL monitor of the server runs once a minute, so the test checks the index."""
    indexes = await store.database["outbox"].index_information()
    await outbox.add([row()], None)
    batch = await claim_batch(outbox)
    await outbox.mark_delivered(batch)
    await replay_batches(store.database, [batch.id])

    expiring = {name: index for name, index in indexes.items() if "expireAfterSeconds" in index}
    assert [(index["key"], index["expireAfterSeconds"]) for index in expiring.values()] == [
        ([("delivered_at", 1)], 7 * 24 * 3600)
    ]
    assert "delivered_at" not in (await documents(store))[0]
