"""A stage with servers of its own: what a test may kill, pause and wipe without harm to any other."""

import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
from pymongo.errors import PyMongoError
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from ops.embedded.embedded_servers import embedded_servers
from tests.integration.stage import Stage, wait_until
from workers.settings import Settings
from workers.store.run_store import RunStore, connect


@contextlib.asynccontextmanager
async def stage_of_its_own(folder: Path, **settings: Any) -> AsyncIterator[Stage]:
    """Its Redis and its MongoDB are started again, on the same ports, when they die."""
    async with embedded_servers(folder / "servers") as services:
        urls = {"mongodb_url": services.mongodb_url, "redis_url": services.redis_url}
        async with stage_on(Settings(**{**urls, "data_dir": folder, **settings}), folder) as stage:
            yield stage


@contextlib.asynccontextmanager
async def stage_on(settings: Settings, folder: Path) -> AsyncIterator[Stage]:
    database = connect(settings.mongodb_url or "", database=settings.database)
    try:
        store = RunStore(database, republish_after_s=settings.republish_after_s)
        await store.ensure_indexes()
        stage = Stage(settings, store, folder)
        try:
            yield stage
        finally:
            await stage.close()
    finally:
        await database.client.close()


def listener(url: str | None) -> psutil.Process:
    """The child of this test session that listens where the URL points to."""
    port = urlsplit(url or "").port
    for each in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if any(c.laddr.port == port for c in each.net_connections() if c.status == psutil.CONN_LISTEN):
                return each
    raise ProcessLookupError(f"nobody listens on {port}")


def kill_listener(url: str | None) -> None:
    with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):  # it is just being started again
        listener(url).send_signal(signal.SIGKILL)


def kill_mongod(url: str | None) -> None:
    """Also one that is being started: found by its port only when it listens, it would answer for a moment."""
    port = str(urlsplit(url or "").port)
    for each in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if each.name() == "mongod" and port in each.cmdline():
                each.kill()


async def wait_for_mongodb(stage: Stage) -> None:
    async def answers() -> bool:
        try:
            await stage.store.database.command("ping")
        except PyMongoError:
            return False
        return True

    await wait_until("MongoDB answers", answers, within_s=60)


@contextlib.asynccontextmanager
async def redis_of(stage: Stage) -> AsyncIterator["Redis"]:
    client = Redis.from_url(stage.settings.redis_url or "", socket_timeout=5, retry=Retry(NoBackoff(), 0))
    try:
        yield client
    finally:
        await client.aclose()


async def waiting_messages(stage: Stage) -> int:
    """How many wake-ups lie in the queue; -1 while Redis is away."""
    async with redis_of(stage) as redis:
        try:
            return int(await redis.llen(stage.settings.queue))
        except (RedisError, OSError):
            return -1
