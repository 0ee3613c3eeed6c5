"""Private brokers, and stages that use them."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.integration.stage import Stage, relay, wait_until
from tests.integration.workers.broker_servers import (
    Certificates,
    RedisProcess,
    WatchedRedis,
    watched_redis,
)
from tests.integration.workers.broker_stage import OnBroker
from tests.integration.workers.rabbitmq_node import LASTING, RabbitMQ, require_rabbitmq
from workers.settings import Settings
from workers.store.run_store import RunStore


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.create(tmp_path_factory.mktemp("certificates") / "made")


@pytest.fixture(scope="session")
async def rabbitmq(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> AsyncIterator[RabbitMQ]:
    require_rabbitmq()
    node = RabbitMQ(tmp_path_factory.mktemp("rabbitmq") / "node", certificates)
    try:
        await node.start()
        await asyncio.to_thread(node.declare, LASTING)
        yield node
    finally:
        await node.close()


@pytest.fixture(scope="session")
async def sentinels(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WatchedRedis]:
    async with watched_redis(tmp_path_factory.mktemp("sentinels")) as servers:
        yield servers


@pytest.fixture
async def watched(sentinels: WatchedRedis) -> WatchedRedis:
    await wait_until("the Sentinels know each other and a replica", sentinels.is_ready)
    return sentinels


@pytest.fixture
async def redis(tmp_path: Path) -> AsyncIterator[RedisProcess]:
    server = RedisProcess(tmp_path, configuration=["save ''", "appendonly no"])
    yield server
    await server.kill()


@pytest.fixture
async def on_broker(settings: Settings, store: RunStore, tmp_path: Path) -> AsyncIterator[OnBroker]:
    stages: list[Stage] = []

    def make_stage(url: str, **changes: Any) -> Stage:
        stages.append(Stage(replace(settings, redis_url=url, **changes), store, tmp_path / f"stage{len(stages)}"))
        stages[-1].package("Relay", relay("Relay", ["A", "B"]))
        return stages[-1]

    yield make_stage
    for stage in stages:
        await stage.close()
