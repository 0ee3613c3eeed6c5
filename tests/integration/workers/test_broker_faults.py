"""Broker faults: away, frozen or misconfigured; one log line each, no needless wait."""

import asyncio
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ops.doctor.broker_checks import check_redis
from ops.doctor.check_result import Check
from tests.integration.stage import Stage, wait_until
from tests.integration.workers.broker_servers import Certificates, RedisProcess, WatchedRedis, tls_in_front_of
from tests.integration.workers.broker_stage import OnBroker, accept_runs, wait_for_all_ends
from tests.integration.workers.rabbitmq_node import RabbitMQ
from workers.settings import Settings, as_environment

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


async def test_a_worker_waits_for_a_broker_that_is_not_there_yet(redis: RedisProcess, on_broker: OnBroker) -> None:
    stage = on_broker(f"redis://jobs:hunter2@127.0.0.1:{redis.port}/0")
    ready = asyncio.create_task(stage.start_worker())
    await wait_until("the worker says what it waits for", lambda: has_noticed_outage(stage))
    assert "worker_ready" not in stage.log()
    assert "hunter2" not in stage.log()

    await redis.start()
    # The permissions in docs/brokers.md.
    keys = [f"~{stage.settings.queue}*", "~_kombu*", "~unacked*"]
    await redis.execute("ACL", "SETUSER", "jobs", "on", ">hunter2", *keys, "+@all", "-@dangerous", "+info")
    await ready

    await wait_for_all_ends(stage, await accept_runs(stage, 1))


async def has_noticed_outage(stage: Stage) -> bool:
    path = stage.folder / "worker-0.log"
    return path.exists() and "Cannot connect to redis://" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("as_celery", [False, True])
async def test_a_url_that_cannot_be_used_is_one_line(settings: Settings, as_celery: bool, tmp_path: Path) -> None:
    environment = as_environment(replace(settings, redis_url="redis://:hunter2@h/0?socket_timout=3"))
    by_hand = ["-m", "celery", "-A", "workers", "worker"]
    by_role = ["-m", "unattended", "worker"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *(by_hand if as_celery else by_role)),
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=None if as_celery else tmp_path,
    )

    output, _ = await asyncio.wait_for(process.communicate(), 30)

    [line] = output.decode().splitlines()
    assert "there is no option socket_timout" in line
    assert "hunter2" not in line
    assert process.returncode not in {0, None}


async def test_a_frozen_redis_delays_no_acceptance_and_wakeups_resume_after_it(
    redis: RedisProcess, on_broker: OnBroker, caplog: pytest.LogCaptureFixture
) -> None:
    await redis.start()
    assert redis.process is not None
    stage = on_broker(f"redis://127.0.0.1:{redis.port}/0?socket_timeout=1&socket_connect_timeout=1")
    await stage.start_worker()
    await wait_for_all_ends(stage, await accept_runs(stage, 1))
    caplog.set_level("INFO")
    started = time.monotonic()
    await wait_for_all_ends(stage, await accept_runs(stage, 50))
    usual_s = time.monotonic() - started

    redis.process.send_signal(signal.SIGSTOP)
    started = time.monotonic()
    late = await accept_runs(stage, 50)
    took_s = time.monotonic() - started
    await asyncio.wait_for(stage.wakeups.wait_until_published(), 5)
    stage.wakeups.send(late[0])
    await asyncio.wait_for(stage.wakeups.wait_until_published(), 5)
    redis.process.send_signal(signal.SIGCONT)
    runs = await accept_runs(stage, 5)

    assert took_s < 1 + usual_s, "accepting waits for no broker"
    assert [each.getMessage() for each in caplog.records].count("wakeups_left_to_reconciler") == 1
    for run_id in runs:
        assert (await stage.wait_for_end(run_id, within_s=20))["state"] == "succeeded"  # without a reconciler
    await wait_for_all_ends(stage, late)


# -- the doctor


async def test_the_doctor_knows_rabbitmq(rabbitmq: RabbitMQ) -> None:
    checks = await check_redis(rabbitmq.url)

    assert [check.level for check in checks] == ["ok", "ok"]
    assert checks[0].found.startswith("RabbitMQ 3.")


async def test_the_doctor_reports_what_rabbitmq_refuses(rabbitmq: RabbitMQ) -> None:
    [stranger] = await check_redis(rabbitmq.url.replace("guest:guest", "guest:hunter2"))
    [elsewhere] = await check_redis(rabbitmq.url.removesuffix("/") + "nowhere")

    assert stranger.advice == "correct user and password in UNATTENDED_REDIS_URL"
    assert "virtual host" in elsewhere.advice
    assert "nowhere" in elsewhere.advice
    assert {stranger.level, elsewhere.level} == {"problem"}
    assert "hunter2" not in f"{stranger}"


async def test_the_doctor_finds_the_master_behind_sentinels(watched: WatchedRedis) -> None:
    found = await check_redis(watched.url)
    [other] = await check_redis(watched.url.replace("master_name=mymaster", "master_name=other"))

    assert found[0].level == "ok"
    assert other.level == "problem"
    assert "no Sentinel names a master other" in other.found


async def test_the_doctor_puts_faults_of_a_handshake_in_words(
    redis: RedisProcess, rabbitmq: RabbitMQ, certificates: Certificates
) -> None:
    await redis.start()
    async with tls_in_front_of(redis.port, certificates) as port:
        good = await check_redis(f"rediss://localhost:{port}/0?ssl_ca_certs={certificates.ca}")
        unknown = await check_redis(f"rediss://localhost:{port}/0")
        wrong = await check_redis(f"rediss://localhost:{port}/0?ssl_ca_certs={certificates.stranger}")
    plain = await check_redis(f"rediss://localhost:{redis.port}/0?ssl_ca_certs={certificates.ca}")
    nameless = await check_redis(f"amqps://localhost:{rabbitmq.tls_port}/?ssl_ca_certs={certificates.stranger}")

    assert good[0].level == "ok"
    assert "not trusted here" in only_problem(unknown).found
    assert "ssl_ca_certs" in only_problem(wrong).advice
    assert "does not use TLS" in only_problem(plain).found
    assert "not trusted here" in only_problem(nameless).found


def only_problem(checks: list[Check]) -> Check:
    [check] = checks
    assert check.level == "problem"
    return check
