import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError
from redis.asyncio import Redis
from redis.exceptions import RedisError

from ops.embedded.embedded_error import EmbeddedError
from ops.embedded.embedded_servers import embedded_servers
from ops.embedded.loopback_ports import find_free_port
from tests.integration.ops.processes import descendants, wait_until
from workers.embedded_services import Services, read_services, with_services
from workers.settings import Settings

pytestmark = pytest.mark.integration


@asynccontextmanager
async def clients(services: Services) -> AsyncIterator[tuple[AsyncMongoClient[dict[str, Any]], Redis]]:
    assert services.mongodb_url
    assert services.redis_url
    async with (
        AsyncMongoClient[dict[str, Any]](services.mongodb_url, serverMonitoringMode="poll") as mongodb,
        Redis.from_url(services.redis_url, decode_responses=True) as redis,
    ):
        yield mongodb, redis


async def write(services: Services, mark: str) -> None:
    async with clients(services) as (mongodb, redis):
        await mongodb.shop.orders.insert_one({"_id": mark})
        await redis.rpush("marks", mark)


async def read(services: Services) -> tuple[list[str], list[str]]:
    async with clients(services) as (mongodb, redis):
        orders = [order["_id"] async for order in mongodb.shop.orders.find().sort("_id")]
        return orders, [str(mark) for mark in await redis.lrange("marks", 0, -1)]


def ports(services: Services) -> list[int]:
    return [urlsplit(url).port or 0 for url in (services.mongodb_url, services.redis_url) if url]


def our_servers(data_dir: Path, *names: str) -> list[psutil.Process]:
    """Of this data directory alone: the test session has servers of its own."""
    found = []
    for child in descendants(os.getpid()):
        with suppress(psutil.NoSuchProcess):  # it ended between the two looks
            # Valkey replaces its arguments by a title, but it works in its directory.
            ours = any(str(data_dir) in part for part in [*child.cmdline(), child.cwd()])
            if ours and child.name() in (names or ("mongod", "valkey-server")):
                found.append(child)
    return found


async def test_data_and_addresses_are_kept_between_starts(tmp_path: Path) -> None:
    async with embedded_servers(tmp_path) as first:
        await write(first, "a")

    async with embedded_servers(tmp_path) as second:
        assert await read(second) == (["a"], ["a"])

    assert ports(second) == ports(first)
    assert our_servers(tmp_path) == []


async def test_taken_ports_are_avoided_and_the_data_is_still_there(tmp_path: Path) -> None:
    async with embedded_servers(tmp_path) as first:
        await write(first, "a")

    with (
        socket.create_server(("127.0.0.1", ports(first)[0])),
        socket.create_server(("127.0.0.1", ports(first)[1])),
    ):
        async with embedded_servers(tmp_path) as second:
            await write(second, "b")
            assert await read(second) == (["a", "b"], ["a", "b"])

    assert not set(ports(second)) & set(ports(first))


async def test_the_replica_set_follows_to_another_port(tmp_path: Path) -> None:
    async with embedded_servers(tmp_path) as first:
        await write(first, "a")
    other = find_free_port()
    (tmp_path / "ports.json").write_text(json.dumps({"mongodb": other}), encoding="utf-8")

    async with embedded_servers(tmp_path) as second:
        await write(second, "b")
        assert await read(second) == (["a", "b"], ["a", "b"])

    assert ports(second)[0] == other


async def test_a_port_lost_in_a_race_to_another_server_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with embedded_servers(tmp_path / "stranger") as stranger:
        lost = [*ports(stranger)[::-1]]
        monkeypatch.setattr(
            "ops.embedded.embedded_server.find_free_port",
            lambda preferred: lost.pop(0) if lost else find_free_port(preferred),
        )

        async with embedded_servers(tmp_path / "ours") as ours:
            await write(ours, "ours")

        assert await read(stranger) == ([], [])
    assert not set(ports(ours)) & set(ports(stranger))


async def test_the_replica_set_takes_majority_writes_and_change_streams(tmp_path: Path) -> None:
    async with embedded_servers(tmp_path) as services, clients(services) as (mongodb, redis):
        async with await mongodb.shop.watch() as stream:
            await mongodb.shop.orders.insert_one({"_id": 1})
            event = await anext(stream)
        policy = await redis.config_get("maxmemory-policy")

    assert event["operationType"] == "insert"
    assert policy == {"maxmemory-policy": "noeviction"}


async def test_server_side_scripts_are_refused(tmp_path: Path) -> None:
    script = {"$function": {"body": "function() { return true; }", "args": [], "lang": "js"}}

    async with embedded_servers(tmp_path) as services, clients(services) as (mongodb, _):
        await mongodb.shop.orders.insert_one({"_id": 1})
        with pytest.raises(PyMongoError, match="without the javascript engine"):
            await mongodb.shop.orders.find_one({"$expr": script})


async def test_documents_near_the_limit_of_mongodb_are_taken_at_once(tmp_path: Path) -> None:
    """And each is kept as it was before, for a change stream."""
    text = "x" * 15 * 1024 * 1024

    async with embedded_servers(tmp_path) as services, clients(services) as (mongodb, _):
        orders = await mongodb.shop.create_collection("orders", changeStreamPreAndPostImages={"enabled": True})
        await asyncio.gather(*(orders.insert_one({"_id": number, "text": text}) for number in range(6)))
        await asyncio.gather(*(orders.replace_one({"_id": number}, {"text": text}) for number in range(6)))
        async with mongodb.start_session() as session, await session.start_transaction():
            for number in range(3):
                await orders.insert_one({"_id": f"in a transaction {number}", "text": text}, session=session)

        assert await orders.count_documents({}) == 9


async def test_servers_listen_on_loopback_only(tmp_path: Path) -> None:
    async with embedded_servers(tmp_path):
        connections = [each for child in our_servers(tmp_path) for each in child.net_connections("all")]

    listening = [each.laddr for each in connections if each.status == psutil.CONN_LISTEN]
    assert len(listening) == 2
    assert {address.ip for address in listening} == {"127.0.0.1"}
    assert not [each for each in connections if each.family == socket.AF_UNIX and each.laddr]


async def test_addresses_stand_in_the_services_file_while_they_run(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)

    async with embedded_servers(tmp_path) as services:
        assert read_services(tmp_path) == services
        assert with_services(settings).mongodb_url == services.mongodb_url
        assert all(getattr(services, each.name) for each in fields(services))

    assert read_services(tmp_path) is None
    assert not (tmp_path / "services.json").exists()


async def test_only_the_server_that_is_asked_for_is_started(tmp_path: Path) -> None:
    async with embedded_servers(tmp_path, mongodb=False) as services:
        assert [child.name() for child in our_servers(tmp_path)] == ["valkey-server"]
        assert services.mongodb_url is None
        assert with_services(Settings(mongodb_url="mongodb://a", data_dir=tmp_path)).redis_url == services.redis_url


async def test_a_second_owner_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    async with embedded_servers(tmp_path) as services:
        with pytest.raises(EmbeddedError, match=rf"is in use by process {os.getpid()} \(unattended up\)"):
            async with embedded_servers(tmp_path):
                pass

        await write(services, "a")
        assert read_services(tmp_path) == services


async def test_a_newer_data_directory_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "format.json").write_text('{"format": 99}', encoding="utf-8")

    with pytest.raises(EmbeddedError, match="written by a newer unattended"):
        async with embedded_servers(tmp_path):
            pass

    assert sorted(os.listdir(tmp_path)) == ["format.json", "lock"]  # noqa: PTH208 -- blocks no longer than pathlib would


async def test_a_server_that_cannot_start_is_one_line_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "mongodb").mkdir()
    (tmp_path / "mongodb" / "WiredTiger.wt").write_text("not a database", encoding="utf-8")
    (tmp_path / "mongodb" / "storage.bson").write_text("nor this", encoding="utf-8")

    with pytest.raises(EmbeddedError, match=r"^mongodb did not start \(exit code .*mongodb\.log") as caught:
        async with embedded_servers(tmp_path):
            pass

    assert "\n" not in str(caught.value)
    assert our_servers(tmp_path) == []
    assert read_services(tmp_path) is None


async def test_giving_up_during_the_start_leaves_nothing(tmp_path: Path) -> None:
    async def start_and_stay() -> None:
        async with embedded_servers(tmp_path):
            await asyncio.Event().wait()

    starting = asyncio.create_task(start_and_stay())
    await wait_until("a server process is there", lambda: bool(our_servers(tmp_path)))
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting

    assert our_servers(tmp_path) == []


@pytest.mark.parametrize("name", ["mongod", "valkey-server"])
async def test_a_server_that_is_killed_comes_back_with_its_data(tmp_path: Path, name: str) -> None:
    async with embedded_servers(tmp_path) as services:
        await write(services, "a")
        [victim] = our_servers(tmp_path, name)
        victim.send_signal(signal.SIGKILL)
        await wait_until("another process has its place", lambda: our_servers(tmp_path, name) not in ([], [victim]))

        async with asyncio.timeout(10):
            assert await _restart_and_read(services) == (["a"], ["a"])


async def _restart_and_read(services: Services) -> tuple[list[str], list[str]]:
    while True:
        try:
            return await read(services)
        except (RedisError, PyMongoError, OSError):
            await asyncio.sleep(0.02)
