import asyncio
import socket
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from redis.asyncio import Redis

from ops.doctor.broker_checks import check_redis
from ops.doctor.check_result import Check, has_problem
from ops.doctor.check_runner import examine
from ops.doctor.mongodb_checks import check_mongodb
from ops.embedded.binaries import find_mongod
from ops.embedded.embedded_mongodb import mongod_argv
from ops.embedded.embedded_servers import embedded_servers
from ops.embedded.loopback_ports import find_free_port, wait_port_open
from ops.processes.child_process import start_child, stop_child
from workers.embedded_services import Services
from workers.setting_values import Address
from workers.settings import Settings

pytestmark = pytest.mark.integration

NOWHERE = Address("127.0.0.1", 0)


@pytest.fixture
async def redis_url(tmp_path: Path) -> AsyncIterator[str]:
    """A server for these tests alone, as they change its configuration."""
    async with embedded_servers(tmp_path, mongodb=False) as services:
        yield services.redis_url or ""


async def set_up(redis_url: str, *commands: Sequence[str]) -> None:
    async with Redis.from_url(redis_url) as client:
        for command in commands:
            await client.execute_command(*command)  # type: ignore[no-untyped-call]  # redis-py leaves it untyped


def levels(checks: Sequence[Check]) -> dict[str, str]:
    return {check.name: check.level for check in checks}


async def test_good_servers_are_good(servers: Services, tmp_path: Path) -> None:
    settings = Settings(
        mongodb_url=servers.mongodb_url,
        redis_url=servers.redis_url,
        data_dir=tmp_path,
        listen=NOWHERE,
        metrics_listen=NOWHERE,
    )

    checks = await examine(settings)

    not_good = {check.name: check.found for check in checks if check.level != "ok"}
    # Other tests may have filled the small oplog; its check has tests of its own.
    assert not_good.keys() <= {"mongodb oplog window"}, not_good
    assert set(levels(checks)) == {
        *("settings", "redis", "redis maxmemory-policy", "redis persistence", "mongodb", "mongodb replica set"),
        *("mongodb majority write", "mongodb oplog window", "gateway address", "exporter address"),
        *("package DailyDigest", "package IssueTriage", "package LeadIntake", "package OrderFollowUp", "models"),
        "operator's file",
    }
    assert not has_problem(checks)


async def test_embedded_servers_are_examined_where_they_run(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, listen=NOWHERE, metrics_listen=NOWHERE)

    before = await examine(settings)
    async with embedded_servers(tmp_path) as services:
        during = await examine(settings)

    assert set(levels(before).values()) == {"ok"}
    assert "redis" not in levels(before)
    assert set(levels(during).values()) == {"ok"}
    found = {check.name: check.found for check in during}
    assert services.mongodb_version
    assert services.mongodb_version in found["embedded mongodb"]
    assert f"MongoDB {services.mongodb_version} at {services.mongodb_url}" == found["mongodb"]
    assert f"in use by process {services.owner_pid}" in found["data directory"]


async def test_a_redis_that_evicts_is_a_problem(redis_url: str) -> None:
    await set_up(redis_url, ["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"])

    assert levels(await check_redis(redis_url))["redis maxmemory-policy"] == "problem"


async def test_a_redis_that_keeps_nothing_is_a_warning(redis_url: str) -> None:
    await set_up(redis_url, ["CONFIG", "SET", "appendonly", "no"])

    assert levels(await check_redis(redis_url))["redis persistence"] == "warning"


async def test_a_redis_with_snapshots_is_good(redis_url: str) -> None:
    await set_up(redis_url, ["CONFIG", "SET", "appendonly", "no"], ["CONFIG", "SET", "save", "60 1"])

    assert levels(await check_redis(redis_url))["redis persistence"] == "ok"


async def test_a_managed_redis_without_config_is_a_warning(redis_url: str) -> None:
    await set_up(
        redis_url, ["CONFIG", "SET", "appendonly", "no"], ["ACL", "SETUSER", "default", "on", "nopass", "-config"]
    )

    checks = await check_redis(redis_url)

    assert levels(checks)["redis persistence"] == "warning"
    assert not has_problem(checks)


async def test_a_wrong_redis_password_is_a_problem_and_is_not_shown(redis_url: str) -> None:
    await set_up(redis_url, ["CONFIG", "SET", "requirepass", "right"])

    [check] = await check_redis(redis_url.replace("://", "://:hunter2@"))

    assert check.level == "problem"
    assert "hunter2" not in f"{check.found} {check.advice}"


async def test_a_single_mongod_is_a_problem(tmp_path: Path) -> None:
    port = find_free_port()
    mongod = await start_child(
        mongod_argv(find_mongod(), folder=tmp_path, port=port), death_signal="KILL", output=tmp_path / "log"
    )
    async with asyncio.timeout(20):
        await wait_port_open(port)

    checks = await check_mongodb(f"mongodb://127.0.0.1:{port}", database="unattended", embedded=False)
    [as_set] = await check_mongodb(f"mongodb://127.0.0.1:{port}/?replicaSet=rs0", database="unattended", embedded=False)
    await stop_child(mongod, grace_s=10)

    assert levels(checks) == {"mongodb": "ok", "mongodb replica set": "problem"}
    assert as_set.level == "problem"
    assert "Topology" not in as_set.found


async def test_servers_that_are_not_there_are_problems(tmp_path: Path) -> None:
    port = find_free_port()
    settings = Settings(
        mongodb_url=f"mongodb://user:hunter2@127.0.0.1:{port}",
        redis_url=f"redis://:hunter2@127.0.0.1:{port}",
        data_dir=tmp_path,
        listen=NOWHERE,
        metrics_listen=NOWHERE,
    )

    checks = await examine(settings)

    [nobody] = await check_redis(f"sentinel://127.0.0.1:{port}/0?master_name=m")

    assert {name for name, level in levels(checks).items() if level == "problem"} == {"redis", "mongodb"}
    assert "hunter2" not in str(checks)
    assert nobody.found.endswith(f": no Sentinel names a master m; no answer from 127.0.0.1:{port}")


async def test_servers_that_do_not_answer_are_problems_within_the_time(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = Address(*silent.getsockname())
        settings = Settings(
            mongodb_url=f"mongodb://{address}",
            redis_url=f"redis://{address}",
            data_dir=tmp_path,
            listen=address,
            metrics_listen=NOWHERE,
        )
        started = time.monotonic()
        checks = await examine(settings)

    problems = {name for name, level in levels(checks).items() if level == "problem"}
    assert problems == {"redis", "mongodb", "gateway address"}
    assert time.monotonic() - started < 4


async def test_a_database_that_may_not_be_written_is_a_problem(servers: Services) -> None:
    checks = await check_mongodb(servers.mongodb_url or "", database="not/allowed", embedded=False)

    assert levels(checks)["mongodb majority write"] == "problem"


async def test_the_probe_leaves_no_document(servers: Services, tmp_path: Path) -> None:
    from pymongo import AsyncMongoClient

    settings = Settings(mongodb_url=servers.mongodb_url, database=f"doctor_{tmp_path.name[:20]}", data_dir=tmp_path)
    await examine(replace(settings, redis_url="redis://127.0.0.1:1", listen=NOWHERE, metrics_listen=NOWHERE))

    async with AsyncMongoClient[dict[str, object]](servers.mongodb_url, serverMonitoringMode="poll") as client:
        assert await client[settings.database].doctor_probes.count_documents({}) == 0
        await client.drop_database(settings.database)
