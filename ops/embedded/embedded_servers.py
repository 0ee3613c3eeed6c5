"""The embedded servers as one context: real Redis and real MongoDB, for the life of this process."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ops.embedded.binaries import find_mongod, find_redis
from ops.embedded.data_dir import DataDir, open_data_dir
from ops.embedded.embedded_error import EmbeddedError
from ops.embedded.embedded_mongodb import mongodb_spec, mongodb_url
from ops.embedded.embedded_redis import redis_spec, redis_url
from ops.embedded.embedded_server import EmbeddedServer
from workers.embedded_services import Services, remove_services, write_services


@asynccontextmanager
async def embedded_servers(data_dir: Path, *, mongodb: bool = True, redis: bool = True) -> AsyncIterator[Services]:
    """Runs the requested servers on free loopback ports until the context ends.

    Their data stays in `data_dir`.
    """
    # Before the directory is created: a machine that cannot run the servers gets an error, and no empty directory.
    mongod, redis_server = await asyncio.gather(
        asyncio.to_thread(find_mongod) if mongodb else _no_binary(),
        asyncio.to_thread(find_redis) if redis else _no_binary(),
    )
    async with open_data_dir(data_dir) as owned:
        # Servers stop in this order: MongoDB, which holds the runs, last.
        servers: list[EmbeddedServer] = []
        if redis_server:
            spec = redis_spec(redis_server, folder=owned.folder("redis"), log=owned.log_file("redis"))
            servers.append(EmbeddedServer(spec, lock_fd=owned.lock_fd))
        if mongod:
            spec = mongodb_spec(
                mongod,
                folder=owned.folder("mongodb"),
                log=owned.log_file("mongodb"),
                last_port=owned.read_ports().get("mongodb"),
                lock_fd=owned.lock_fd,
            )
            servers.append(EmbeddedServer(spec, lock_fd=owned.lock_fd))
        async with _run_servers(servers, owned) as services:
            yield services


async def _no_binary() -> None:
    return None


@asynccontextmanager
async def _run_servers(servers: list[EmbeddedServer], data_dir: DataDir) -> AsyncIterator[Services]:
    restart_tasks: list[asyncio.Task[None]] = []
    try:
        services = await _start_all(servers, data_dir)
        restart_tasks = [asyncio.create_task(server.keep_running()) for server in servers]
        yield services
    finally:
        remove_services(data_dir.path)
        for task in restart_tasks:
            task.cancel()
        try:
            for server in servers:
                await server.stop()
            await asyncio.gather(*restart_tasks, return_exceptions=True)
        finally:
            for server in servers:  # a cancellation while stopping skips the grace
                server.kill()


async def _start_all(servers: list[EmbeddedServer], data_dir: DataDir) -> Services:
    ports = data_dir.read_ports()
    starts = (server.start(ports.get(server.spec.name)) for server in servers)
    try:
        # Wait for all before an error is raised, so that the caller can stop the servers that did start.
        for outcome in await asyncio.gather(*starts, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
        services = _service_addresses(servers)
        data_dir.write_ports({server.spec.name: server.port for server in servers})
        write_services(data_dir.path, services)
    except OSError as error:
        raise EmbeddedError(f"the embedded servers cannot be started in {data_dir.path}: {error}") from error
    return services


def _service_addresses(servers: list[EmbeddedServer]) -> Services:
    by_name = {server.spec.name: server for server in servers}
    mongodb, redis = by_name.get("mongodb"), by_name.get("redis")
    return Services(
        mongodb_url=mongodb_url(mongodb.port) if mongodb else None,
        redis_url=redis_url(redis.port) if redis else None,
        owner_pid=os.getpid(),
        mongodb_version=mongodb.spec.binary.version if mongodb else None,
        redis_version=redis.spec.binary.version if redis else None,
    )
