"""Real servers for a test session, started by it on free ports, and a database of its own for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pymongo import AsyncMongoClient
from ulid import ULID

from ops.embedded.servers import embedded_servers
from tests.integration.stage import Stage
from workers.services import Services
from workers.settings import Settings
from workers.store.run_store import RunStore, connect


@pytest.fixture(scope="session")
async def servers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Services]:
    async with embedded_servers(tmp_path_factory.mktemp("servers")) as services:
        yield services


@pytest.fixture
async def settings(servers: Services, tmp_path: Path) -> AsyncIterator[Settings]:
    database = f"test_{ULID()}".lower()
    yield Settings(
        mongodb_url=servers.mongodb_url,
        redis_url=servers.redis_url,
        database=database,
        queue=database,
        data_dir=tmp_path,
        lease_s=3,
        republish_after_s=2,
    )
    # Polling: closed while its monitor connects, the driver's streaming one would leave a socket open.
    client: AsyncMongoClient[dict[str, object]] = AsyncMongoClient(servers.mongodb_url, serverMonitoringMode="poll")
    await client.drop_database(database)
    await client.close()


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[RunStore]:
    database = connect(settings.mongodb_url or "", database=settings.database)
    store = RunStore(database, republish_after_s=settings.republish_after_s)
    await store.ensure_indexes()
    yield store
    await database.client.close()


@pytest.fixture
async def stage(settings: Settings, store: RunStore, tmp_path: Path) -> AsyncIterator[Stage]:
    stage = Stage(settings, store, tmp_path)
    yield stage
    await stage.close()
