"""The heartbeat without a store: a run whose lease cannot be renewed is stopped before another owner may take it."""

import asyncio

from workers.process.heartbeat import Heartbeat
from workers.store.run import Claim

LEASE_S = 3
RUN = {"_id": "run_1", "app_id": "acme", "workflow": "Digest", "attempt": 1, "trigger": {"name": "daily"}}


async def test_a_run_is_stopped_when_half_a_lease_has_gone_without_a_renewal() -> None:
    losses: list[str] = []
    nobody = "mongodb://127.0.0.1:1/"
    heartbeat = Heartbeat(url=nobody, database="unattended", lease_s=LEASE_S, on_lost=losses.append)
    claim = Claim("run_1", "me", 1, RUN)
    heartbeat.start()

    async def keep() -> None:
        with heartbeat.renew_while(claim):
            await asyncio.sleep(60)

    work = asyncio.create_task(keep())
    stopped, _ = await asyncio.wait([work], timeout=LEASE_S * 1.8)
    await asyncio.to_thread(heartbeat.stop)
    work.cancel()

    assert stopped == {work}
    assert work.cancelled()
    assert losses == ["not_renewed"]
