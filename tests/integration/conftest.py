"""Real servers for a test session, started by it on free ports, and a database of its own for each test."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import psutil
import pytest
from kombu import pools
from pymongo import AsyncMongoClient
from ulid import ULID

from ops.embedded.embedded_servers import embedded_servers
from tests.integration.role_forks import FORKS
from tests.integration.stage import Stage
from tests.server_logs import DEATHS
from workers.embedded_services import Services
from workers.settings import Settings
from workers.store.run_store import RunStore, connect

MEMORY = Path("/dev/shm")  # noqa: S108 -- a disk in memory; the folder in it is of this session alone


@pytest.fixture(scope="session", autouse=True)
async def forks() -> AsyncIterator[None]:
    """And Celery's connections, which all stages share by their brokers' URLs."""
    yield
    await FORKS.close()
    await asyncio.to_thread(pools.reset)


@pytest.fixture(scope="session")
async def servers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Services]:
    with _data_dir(tmp_path_factory) as data_dir:
        DEATHS.share(data_dir)
        async with embedded_servers(data_dir) as services:
            await _close_dropped_files(services)
            yield services


async def _close_dropped_files(services: Services) -> None:
    """MongoDB keeps the files of dropped databases open for ten minutes: a session drops hundreds of databases of a
    hundred files each, and a mongod that is out of descriptors ends itself."""
    soon = "file_manager=(close_idle_time=10,close_scan_interval=2,close_handle_minimum=100)"
    client: AsyncMongoClient[dict[str, object]] = AsyncMongoClient(services.mongodb_url, serverMonitoringMode="poll")
    await client.admin.command({"setParameter": 1, "wiredTigerEngineRuntimeConfig": soon})
    await client.close()


@contextlib.contextmanager
def _data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """In memory where there is room: a disk takes 0.1 s to create one database's indexes, hundreds of times."""
    if not MEMORY.is_dir() or psutil.disk_usage(str(MEMORY)).free < 4e9 or psutil.virtual_memory().available < 6e9:
        yield tmp_path_factory.mktemp("servers")
        return
    with tempfile.TemporaryDirectory(prefix="unattended-tests-", dir=MEMORY) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
async def dropped(servers: Services) -> AsyncIterator[Callable[[str], None]]:
    """Drops a database while the tests go on: it takes 0.1 s of waiting."""
    # Polling: closed while its monitor connects, the driver's streaming one would leave a socket open.
    client: AsyncMongoClient[dict[str, object]] = AsyncMongoClient(servers.mongodb_url, serverMonitoringMode="poll")
    dropping: list[asyncio.Task[None]] = []
    yield lambda database: dropping.append(asyncio.create_task(client.drop_database(database)))
    await asyncio.gather(*dropping)
    await client.close()


@pytest.fixture
async def settings(servers: Services, tmp_path: Path, dropped: Callable[[str], None]) -> AsyncIterator[Settings]:
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
    dropped(database)


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[RunStore]:
    # Polling, for the same reason as in `dropped`.
    database = connect(f"{settings.mongodb_url}&serverMonitoringMode=poll", database=settings.database)
    store = RunStore(database, republish_after_s=settings.republish_after_s)
    await store.ensure_indexes()
    yield store
    await database.client.close()


@pytest.fixture
async def stage(settings: Settings, store: RunStore, tmp_path: Path) -> AsyncIterator[Stage]:
    stage = Stage(settings, store, tmp_path)
    yield stage
    await stage.close()
