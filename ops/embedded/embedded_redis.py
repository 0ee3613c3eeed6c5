"""The embedded Redis: its command line and its readiness check."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from ops.embedded.binaries import ServerBinary
from ops.embedded.embedded_server import ServerSpec
from ops.embedded.loopback_ports import LOOPBACK, wait_port_open


def redis_url(port: int) -> str:
    return f"redis://{LOOPBACK}:{port}/0"


def redis_spec(binary: ServerBinary, *, folder: Path, log: Path) -> ServerSpec:
    async def wait_ready(port: int, is_alive: Callable[[], bool]) -> bool:
        if not await wait_port_open(port, is_alive):
            return False
        async with Redis(host=LOOPBACK, port=port, socket_timeout=2, retry=Retry(NoBackoff(), 0)) as client:
            while is_alive():
                if await _is_own_and_loaded(client, folder):
                    return True
                await asyncio.sleep(0.005)
        return False

    return ServerSpec(
        name="redis",
        binary=binary,
        log=log,
        argv=lambda port: redis_argv(binary, folder=folder, port=port),
        wait_ready=wait_ready,
        advice=f"it holds wake-ups only, runs are in MongoDB: deleting {folder} loses nothing",
    )


def redis_argv(binary: ServerBinary, *, folder: Path, port: int) -> list[str]:
    return [
        str(binary.path),
        *("--port", str(port), "--bind", LOOPBACK, "--dir", str(folder)),
        # The append-only file without snapshots: messages that were pushed before a kill survive it.
        *("--save", "", "--appendonly", "yes", "--appendfsync", "everysec"),
        # With eviction, a full broker would drop messages without an error.
        *("--maxmemory-policy", "noeviction"),
    ]


async def _is_own_and_loaded(client: Redis, folder: Path) -> bool:
    """Checks the directory, since another server may have taken the port. PING fails while the file is loaded."""
    try:
        await client.ping()
        settings = await client.config_get("dir")
    except (RedisError, OSError):
        return False
    return bool(settings.get("dir") == str(folder))
