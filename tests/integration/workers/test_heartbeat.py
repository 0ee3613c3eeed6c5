"""The heartbeat on a real MongoDB: a lease outlives a blocked event loop, and a lost one stops its chat."""

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.integration.stage import until
from workers.heartbeat import Heartbeat
from workers.ownership import Ownership
from workers.run import Claim, RunRequest, TriggerEvent
from workers.run_store import RunStore
from workers.settings import Settings

pytestmark = pytest.mark.integration

LEASE_S = 3


class Losses:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


@pytest.fixture
def losses() -> Losses:
    return Losses()


@pytest.fixture
def heartbeat(settings: Settings, losses: Losses) -> Iterator[Heartbeat]:
    heartbeat = Heartbeat(url=settings.mongodb_url or "", database=settings.database, lease_s=LEASE_S, on_lost=losses)
    heartbeat.start()
    yield heartbeat
    heartbeat.stop()


async def claimed(store: RunStore) -> Claim:
    event = TriggerEvent("api", "test", "1", fired_at=datetime.now(UTC))
    accepted = await store.insert(RunRequest("acme", "Digest", event))
    claim = await Ownership(store, owner="me", lease_s=LEASE_S).claim(accepted.run_id)
    assert claim is not None
    return claim


async def lease_end(store: RunStore, claim: Claim) -> datetime:
    run = await store.find(claim.run_id)
    assert run is not None
    end: datetime = run["lease"]["until"]
    return end


async def test_a_blocked_event_loop_does_not_lose_the_lease(store: RunStore, heartbeat: Heartbeat) -> None:
    claim = await claimed(store)

    with heartbeat.keeping(claim):
        time.sleep(LEASE_S * 1.7)  # noqa: ASYNC251 -- blocking the loop is what is tested

        assert await lease_end(store, claim) > datetime.now(UTC)
        assert not heartbeat.lost(claim)


async def test_a_run_that_ended_is_not_renewed(store: RunStore, heartbeat: Heartbeat) -> None:
    ended, working = await claimed(store), None
    with heartbeat.keeping(ended):
        working = await lease_end(store, ended)

    async def lease_ran_out() -> bool:
        return await lease_end(store, ended) < datetime.now(UTC)

    await until("the lease runs out", lease_ran_out, within_s=LEASE_S * 3)
    assert await lease_end(store, ended) == working


async def test_a_run_that_was_taken_over_is_cancelled_and_counted(
    store: RunStore, heartbeat: Heartbeat, losses: Losses
) -> None:
    claim = await claimed(store)
    seen: dict[str, Any] = {}

    async def chat() -> None:
        with heartbeat.keeping(claim):
            try:
                await asyncio.sleep(60)
            finally:
                seen["lost"] = heartbeat.lost(claim)

    task = asyncio.create_task(chat())
    await asyncio.sleep(0)
    await store.runs.update_one({"_id": claim.run_id}, {"$inc": {"lease.token": 1}})

    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(LEASE_S * 3):
            await task
    assert seen == {"lost": True}
    assert losses.count == 1


async def test_a_run_that_its_own_process_claimed_again_keeps_the_new_lease(
    store: RunStore, heartbeat: Heartbeat
) -> None:
    """The old task is still writing its last row when the new one begins, and ends in the middle of it."""
    old = await claimed(store)
    await store.runs.update_one({"_id": old.run_id}, {"$set": {"state": "queued"}})
    new = await Ownership(store, owner="me", lease_s=LEASE_S).claim(old.run_id)
    assert new is not None

    ending = heartbeat.keeping(old)
    ending.__enter__()
    with heartbeat.keeping(new):
        ending.__exit__(None, None, None)
        first = await lease_end(store, new)

        async def renewed() -> bool:
            return await lease_end(store, new) > first

        await until("the new lease is renewed", renewed, within_s=LEASE_S)
        assert not heartbeat.lost(new)
