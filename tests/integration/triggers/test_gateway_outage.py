"""MongoDB or Redis fails under load: accepted calls are durable, and others get 503."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ops.embedded.embedded_servers import embedded_servers
from tests.chaos.own_servers import kill_listener, listener
from tests.integration.triggers.condition_wait import wait_until
from tests.integration.triggers.gateway_server import Gateway, serving, settings_with_senders
from tests.webhook_senders import BY_NAME
from triggers.gateway.gateway_app import GatewayOptions
from triggers.role_context import open_role_context
from workers.settings import Settings

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

GITHUB = BY_NAME["github"]
SENDERS_AT_ONCE = 20


@asynccontextmanager
async def gateway_on(settings: Settings, folder: Path, options: GatewayOptions | None = None) -> AsyncIterator[Gateway]:
    async with (
        open_role_context(settings_with_senders(settings, folder)) as ground,
        serving(ground, options=options) as running,
    ):
        yield running


class Deliveries:
    """A typical sender: it repeats a delivery until it is accepted."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.accepted: dict[str, str] = {}
        self.statuses: Counter[int] = Counter()
        self.seconds: list[float] = []
        self.without_retry_after = 0

    async def deliver(self, delivery: str) -> None:
        while delivery not in self.accepted:
            began = time.monotonic()
            answer = await self._gateway.client.post(GITHUB.path, **GITHUB.call(delivery=delivery))
            self.seconds.append(time.monotonic() - began)
            self.statuses[answer.status_code] += 1
            if answer.is_success:
                self.accepted[delivery] = answer.json()["run_id"]
            else:
                self.without_retry_after += "retry-after" not in answer.headers
                await asyncio.sleep(0.05)

    async def deliver_while(self, happens: Awaitable[None], *, name: str) -> None:
        over = asyncio.ensure_future(happens)

        async def keep_sending(sender: int) -> None:
            number = 0
            while not over.done():
                await self.deliver(f"{name}-{sender}-{number}")
                number += 1

        await asyncio.gather(over, *(keep_sending(sender) for sender in range(SENDERS_AT_ONCE)))


async def are_all_stored(gateway: Gateway, deliveries: Deliveries) -> bool:
    runs = {run["trigger"]["id"]: run["_id"] async for run in gateway.ground.store.runs.find({}, {"trigger.id": 1})}
    assert runs == deliveries.accepted
    assert await gateway.ground.store.runs.count_documents({}) == len(deliveries.accepted)
    return True


async def test_a_mongodb_that_is_killed_loses_nothing_that_was_accepted(tmp_path: Path) -> None:
    async with embedded_servers(tmp_path / "servers") as services:
        settings = Settings(mongodb_url=services.mongodb_url, redis_url=services.redis_url)
        async with gateway_on(settings, tmp_path) as gateway:
            deliveries = Deliveries(gateway)

            async def killed_three_times() -> None:
                for _ in range(3):
                    kill_listener(services.mongodb_url)
                    await has_accepted(deliveries, len(deliveries.accepted) + 40)

            await deliveries.deliver_while(killed_three_times(), name="killed")

            assert set(deliveries.statuses) <= {200, 202, 503}
            assert deliveries.without_retry_after == 0
            assert await are_all_stored(gateway, deliveries)


async def has_more_than(deliveries: Deliveries, count: int) -> bool:
    return len(deliveries.accepted) > count


async def test_a_frozen_mongodb_is_503_in_time_and_a_repeated_delivery_one_run(tmp_path: Path) -> None:
    async with embedded_servers(tmp_path / "servers") as services:
        settings = Settings(mongodb_url=services.mongodb_url, redis_url=services.redis_url)
        async with gateway_on(settings, tmp_path, GatewayOptions(store_timeout_s=0.5)) as gateway:
            deliveries, mongod = Deliveries(gateway), listener(services.mongodb_url)
            await deliveries.deliver("first")

            async def frozen_for_a_while() -> None:
                mongod.send_signal(signal.SIGSTOP)
                try:
                    await wait_until(lambda: has_refused(deliveries, 100), "calls are told to come again")
                finally:
                    mongod.send_signal(signal.SIGCONT)

            await deliveries.deliver_while(frozen_for_a_while(), name="frozen")

            assert set(deliveries.statuses) == {200, 202, 503} or set(deliveries.statuses) == {202, 503}
            assert deliveries.without_retry_after == 0
            assert await are_all_stored(gateway, deliveries)


async def has_refused(deliveries: Deliveries, count: int) -> bool:
    return deliveries.statuses[503] >= count


@pytest.mark.parametrize("how", ["killed", "frozen"])
async def test_a_redis_that_is_away_delays_no_answer(settings: Settings, tmp_path: Path, how: str) -> None:
    async with (
        embedded_servers(tmp_path / "servers", mongodb=False) as services,
        gateway_on(replace(settings, redis_url=services.redis_url), tmp_path) as gateway,
    ):
        deliveries = Deliveries(gateway)
        await deliveries.deliver_while(has_accepted(deliveries, 100), name="before")
        usual_s, slowest_before_s = median_s(deliveries.seconds), max(deliveries.seconds)
        deliveries.seconds.clear()

        async with redis_outage(services.redis_url, how):
            await deliveries.deliver_while(has_accepted(deliveries, len(deliveries.accepted) + 200), name="away")

        assert set(deliveries.statuses) == {202}
        assert median_s(deliveries.seconds) < 3 * usual_s + 0.1
        assert max(deliveries.seconds) < 3 * slowest_before_s + 1
        assert await are_all_stored(gateway, deliveries)


async def has_accepted(deliveries: Deliveries, count: int) -> None:
    await wait_until(lambda: has_more_than(deliveries, count), f"{count} deliveries are taken", within_s=40)


def median_s(seconds: list[float]) -> float:
    return sorted(seconds)[len(seconds) // 2]


@asynccontextmanager
async def redis_outage(redis_url: str | None, how: str) -> AsyncIterator[None]:
    """Its keeper starts a killed one again; it is killed again at once."""
    if how == "frozen":
        redis = listener(redis_url)
        redis.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            redis.send_signal(signal.SIGCONT)
        return
    over = asyncio.Event()

    async def keep_killing() -> None:
        while not over.is_set():
            await asyncio.to_thread(kill_listener, redis_url)
            await asyncio.sleep(0.3)

    task = asyncio.create_task(keep_killing())
    try:
        yield
    finally:
        over.set()
        await task
