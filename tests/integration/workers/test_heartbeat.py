"""The heartbeat on a real MongoDB: a lease outlives a blocked event loop, and a lost one stops its chat."""

import asyncio
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.integration.stage import wait_until
from workers.process.heartbeat import Heartbeat
from workers.settings import Settings
from workers.store.claimed_runs import MongoRunRepository
from workers.store.run import Claim, RunRequest, TriggerEvent
from workers.store.run_store import RunStore, connect

pytestmark = pytest.mark.integration

LEASE_S = 3


class Losses(list[str]):
    def __call__(self, reason: str) -> None:
        self.append(reason)


@pytest.fixture
def losses() -> Losses:
    return Losses()


@pytest.fixture
def heartbeat(settings: Settings, losses: Losses) -> Iterator[Heartbeat]:
    heartbeat = Heartbeat(url=settings.mongodb_url or "", database=settings.database, lease_s=LEASE_S, on_lost=losses)
    heartbeat.start()
    yield heartbeat
    heartbeat.stop()


async def claim_run(store: RunStore, event_id: str = "1") -> Claim:
    event = TriggerEvent("api", "test", event_id, fired_at=datetime.now(UTC))
    accepted = await store.insert(RunRequest("acme", "Digest", event))
    claim = await MongoRunRepository(store, owner="me", lease_s=LEASE_S).claim(accepted.run_id)
    assert claim is not None
    return claim


async def lease_end(store: RunStore, claim: Claim) -> datetime:
    run = await store.find(claim.run_id)
    assert run is not None
    end: datetime = run["lease"]["until"]
    return end


async def test_a_blocked_event_loop_does_not_lose_the_lease(
    store: RunStore, heartbeat: Heartbeat, losses: Losses
) -> None:
    """Nor do four concurrent tools that compute in pure Python and hold the interpreter lock."""
    claim = await claim_run(store)
    over = threading.Event()

    def compute() -> None:
        while not over.is_set():
            sum(range(1_000))

    tools = [threading.Thread(target=compute) for _ in range(4)]
    with heartbeat.renew_while(claim):
        for tool in tools:
            tool.start()
        time.sleep(LEASE_S * 2)  # noqa: ASYNC251 -- blocking the loop is what is tested
        over.set()

        assert await lease_end(store, claim) > datetime.now(UTC)
        assert not heartbeat.is_lost(claim)
    for tool in tools:
        tool.join()
    assert losses == []


@pytest.mark.parametrize("state", ["succeeded", "queued"])
async def test_a_run_that_left_under_its_own_token_is_not_called_lost(
    store: RunStore, heartbeat: Heartbeat, losses: Losses, state: str
) -> None:
    """Its owner has written the end, and has not received the response yet."""
    left, kept = await claim_run(store), await claim_run(store, "2")

    with heartbeat.renew_while(left), heartbeat.renew_while(kept):
        heartbeat.mark_finishing(left)
        await store.runs.update_one({"_id": left.run_id}, {"$set": {"state": state}})
        for _ in range(2):  # the second beat that is seen began after the write
            seen = await lease_end(store, kept)

            async def is_renewed(before: datetime = seen) -> bool:
                return await lease_end(store, kept) > before

            await wait_until("the other lease is renewed", is_renewed)

        assert not heartbeat.is_lost(left)
    assert losses == []


async def test_a_run_that_ended_is_not_renewed(store: RunStore, heartbeat: Heartbeat) -> None:
    ended, working = await claim_run(store), None
    with heartbeat.renew_while(ended):
        working = await lease_end(store, ended)

    async def lease_ran_out() -> bool:
        return await lease_end(store, ended) < datetime.now(UTC)

    await wait_until("the lease runs out", lease_ran_out, within_s=LEASE_S * 3)
    assert await lease_end(store, ended) == working


async def test_a_run_that_was_taken_over_is_cancelled_and_counted(
    store: RunStore, heartbeat: Heartbeat, losses: Losses
) -> None:
    claim = await claim_run(store)
    seen: dict[str, Any] = {}

    async def chat() -> None:
        with heartbeat.renew_while(claim):
            try:
                await asyncio.sleep(60)
            finally:
                seen["lost"] = heartbeat.is_lost(claim)

    task = asyncio.create_task(chat())
    await asyncio.sleep(0)
    await store.runs.update_one({"_id": claim.run_id}, {"$inc": {"lease.token": 1}})

    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(LEASE_S * 3):
            await task
    assert seen == {"lost": True}
    assert losses == ["taken_over"]


@pytest.mark.parametrize("state", ["queued", "parked", "cancelled"])
async def test_a_run_that_was_given_up_under_its_token_is_cancelled(
    store: RunStore, heartbeat: Heartbeat, losses: Losses, state: str
) -> None:
    """Its worker stood still for longer than the lease.

    No worker has claimed it since, but it may have been replayed.
    """
    claim = await claim_run(store)
    task = asyncio.create_task(renew_until_lost(heartbeat, claim))
    await asyncio.sleep(0)
    await store.runs.update_one({"_id": claim.run_id}, {"$set": {"state": state}})

    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(LEASE_S * 3):
            await task
    assert losses == ["taken_over"]


async def test_of_many_runs_two_locked_ones_cost_no_other_its_lease(
    store: RunStore, heartbeat: Heartbeat, losses: Losses
) -> None:
    claims = [await claim_run(store, str(number)) for number in range(40)]
    locked, others = (claims[12], claims[27]), [*claims[:12], *claims[13:27], *claims[28:]]

    async with store.database.client.start_session() as session, await session.start_transaction():
        for claim in locked:
            await store.runs.update_one({"_id": claim.run_id}, {"$set": {"turn": 1}}, session=session)
        keeping = [asyncio.create_task(renew_until_lost(heartbeat, claim)) for claim in claims]
        await asyncio.sleep(LEASE_S * 1.5)
        ends, now = await asyncio.gather(*(lease_end(store, claim) for claim in others)), datetime.now(UTC)
        await session.abort_transaction()
    for task in keeping:
        task.cancel()
    await asyncio.gather(*keeping, return_exceptions=True)

    assert losses == ["not_renewed"] * 2  # those that were locked all the time
    assert min(ends) > now


async def test_a_heartbeat_that_dies_takes_its_process_with_it(store: RunStore, settings: Settings) -> None:
    def no_memory(_: str) -> None:
        raise MemoryError

    died = threading.Event()
    url = settings.mongodb_url or ""
    dying = Heartbeat(url=url, database=settings.database, lease_s=LEASE_S, on_lost=no_memory, on_dead=died.set)
    claim = await claim_run(store)
    await store.runs.update_one({"_id": claim.run_id}, {"$inc": {"lease.token": 1}})

    dying.start()
    with dying.renew_while(claim):
        await wait_until("it says so", lambda: asyncio.to_thread(died.wait, 0.1), within_s=LEASE_S * 3)
    dying.stop()


async def renew_until_lost(heartbeat: Heartbeat, claim: Claim) -> None:
    with heartbeat.renew_while(claim):
        await asyncio.sleep(60)


async def test_a_run_whose_transaction_stands_still_costs_no_other_its_lease(
    store: RunStore, heartbeat: Heartbeat, losses: Losses
) -> None:
    """For example, a tool blocks the loop at the moment when another chat writes its documents."""
    locked, other = await claim_run(store), await claim_run(store, "2")

    async with store.database.client.start_session() as session, await session.start_transaction():
        await store.runs.update_one({"_id": locked.run_id}, {"$set": {"turn": 1}}, session=session)
        standing = asyncio.create_task(renew_until_lost(heartbeat, locked))
        await asyncio.sleep(0)  # it is the first of the two that are renewed
        with heartbeat.renew_while(other):
            for _ in range(2):
                seen = await lease_end(store, other)

                async def is_renewed(before: datetime = seen) -> bool:
                    return await lease_end(store, other) > before

                await wait_until("the other lease is renewed", is_renewed, within_s=LEASE_S)
            assert not heartbeat.is_lost(other)
        standing.cancel()
        await session.abort_transaction()
    assert losses in ([], ["not_renewed"])  # at most the one that is locked


async def test_what_its_task_does_next_is_not_cut_off_with_a_run_that_was_lost(
    store: RunStore, heartbeat: Heartbeat, losses: Losses
) -> None:
    """The loop stands still while the heartbeat finds the loss, so the task learns of it after leaving the run."""
    claim = await claim_run(store)
    await store.runs.update_one({"_id": claim.run_id}, {"$inc": {"lease.token": 1}})

    with heartbeat.renew_while(claim):
        give_up_at = time.monotonic() + LEASE_S * 3
        while not losses and time.monotonic() < give_up_at:
            time.sleep(0.01)  # noqa: ASYNC251 -- blocking the loop is what is tested
    await lease_end(store, claim)

    assert losses == ["taken_over"]
    assert (task := asyncio.current_task()) is not None
    assert task.cancelling() == 0


async def test_a_run_that_its_own_process_claimed_again_keeps_the_new_lease(
    store: RunStore, heartbeat: Heartbeat
) -> None:
    """The old task still writes its last row when the new one begins, and ends in the middle of it."""
    old = await claim_run(store)
    await store.runs.update_one({"_id": old.run_id}, {"$set": {"state": "queued"}})
    new = await MongoRunRepository(store, owner="me", lease_s=LEASE_S).claim(old.run_id)
    assert new is not None

    ending = heartbeat.renew_while(old)
    ending.__enter__()
    with heartbeat.renew_while(new):
        ending.__exit__(None, None, None)
        first = await lease_end(store, new)

        async def is_renewed() -> bool:
            return await lease_end(store, new) > first

        await wait_until("the new lease is renewed", is_renewed, within_s=LEASE_S)
        assert not heartbeat.is_lost(new)


async def test_a_url_that_prefers_secondaries_is_not_obeyed(
    store: RunStore, settings: Settings, losses: Losses
) -> None:
    """There are none here. Real ones may return the previous owner, and miss a cancellation."""
    url = f"{settings.mongodb_url}{'&' if '?' in str(settings.mongodb_url) else '?'}readPreference=secondary"
    told = Heartbeat(url=url, database=settings.database, lease_s=LEASE_S, on_lost=losses)
    claim = await claim_run(store)
    database = connect(url, database=settings.database)
    assert await RunStore(database).find(claim.run_id) is not None
    await database.client.close()
    await store.runs.update_one({"_id": claim.run_id}, {"$set": {"cancel_requested": {"by": "me"}}})

    told.start()
    try:
        with pytest.raises(asyncio.CancelledError), told.renew_while(claim):
            await asyncio.sleep(LEASE_S)
    finally:
        told.stop()

    assert losses == []
