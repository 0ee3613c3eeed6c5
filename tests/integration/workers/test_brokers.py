"""Real brokers of each kind: only the URL differs, and runs are kept without any."""

import asyncio
import signal
import sys
from asyncio.subprocess import Process
from dataclasses import replace
from typing import Any

import pytest
from kombu import Connection

from tests.integration.stage import Stage, wait_until
from tests.integration.workers.broker_servers import Certificates, WatchedRedis, tls_in_front_of
from tests.integration.workers.broker_stage import OnBroker, accept_runs, make_agents_slow, wait_for_all_ends
from tests.integration.workers.rabbitmq_node import LASTING, RabbitMQ
from workers.broker.consumer import disconnect_stalled_redis
from workers.celery import celery_config
from workers.embedded_services import Services
from workers.settings import Settings, as_environment

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

RUNS = 15


# -- RabbitMQ


async def test_a_worker_killed_on_rabbitmq_is_taken_over(rabbitmq: RabbitMQ, on_broker: OnBroker) -> None:
    stage = on_broker(rabbitmq.url)
    make_agents_slow(stage, 0.6)
    first = await stage.start_worker()
    [run_id] = await accept_runs(stage, 1)
    await stage.wait_for_turn(run_id, 1)

    first.kill()
    await stage.start_worker()
    [run] = await wait_for_all_ends(stage, [run_id])

    assert run["lease"]["token"] == 2, "claimed once by each worker"


async def test_on_rabbitmq_wakeups_use_a_quorum_queue_and_one_prefetch(rabbitmq: RabbitMQ, on_broker: OnBroker) -> None:
    stage = on_broker(rabbitmq.url)
    make_agents_slow(stage, 0.7)
    await stage.start_worker(concurrency=2)
    runs = await accept_runs(stage, 6)
    await stage.wait_for_turn(runs[0], 1)

    waiting = await asyncio.to_thread(rabbitmq.declare, stage.settings.queue)

    assert waiting == 3, "two are worked on, one waits in the worker, the rest for anybody"
    assert not await asyncio.to_thread(rabbitmq.has_exchange, "celery_delayed_27"), "nothing of ours is delayed there"
    await wait_for_all_ends(stage, runs)


async def test_runs_end_over_amqps_with_a_client_certificate(
    rabbitmq: RabbitMQ, on_broker: OnBroker, certificates: Certificates
) -> None:
    login = f"ssl_certfile={certificates.client}&ssl_keyfile={certificates.client_key}"
    stage = on_broker(f"amqps://guest:guest@localhost:{rabbitmq.tls_port}/?ssl_ca_certs={certificates.ca}&{login}")
    await stage.start_worker()

    await wait_for_all_ends(stage, await accept_runs(stage, 3))


async def test_rabbitmq_killed_under_load_loses_no_run_and_no_worker(rabbitmq: RabbitMQ, on_broker: OnBroker) -> None:
    stage = on_broker(rabbitmq.url, queue=LASTING)
    make_agents_slow(stage)
    worker = await stage.start_worker(concurrency=5)
    runs = await accept_runs(stage, RUNS)
    await stage.wait_for_turn(runs[0], 1)
    await wait_until("the queue is on disk", lambda: rabbitmq.has_stored_queue(LASTING))

    await rabbitmq.kill()
    runs += await accept_runs(stage, 5)
    await rabbitmq.start()
    runs += await accept_runs(stage, 5)
    await wait_for_all_ends(stage, runs)

    assert worker.returncode is None, stage.log()[-3000:]


# -- Redis behind Sentinels


async def test_a_worker_follows_a_master_that_is_moved_while_it_waits(
    watched: WatchedRedis, on_broker: OnBroker
) -> None:
    stage = on_broker(watched.url)
    worker = await stage.start_worker()
    old = await watched.master()

    await watched.fail_over()
    await wait_until("another master", lambda: has_new_master(watched, old))
    await wait_for_all_ends(stage, await accept_runs(stage, 3))

    assert worker.returncode is None, stage.log()[-3000:]


async def test_a_redis_that_answers_is_not_left(settings: Settings, watched: WatchedRedis) -> None:
    """Otherwise an idle worker would reconnect every few seconds, with a traceback."""
    for url in (settings.redis_url, f"{watched.url}&health_check_interval=7"):
        config = celery_config(replace(settings, redis_url=url))
        with Connection(config["broker_url"], transport_options=config["broker_transport_options"]) as connection:
            channel: Any = connection.default_channel
            channel.basic_consume("asked", no_ack=True, callback=print, consumer_tag="asked")
            channel.connection.cycle.on_poll_start()  # from here on it waits for a reply
            polling = channel._in_poll

            disconnect_stalled_redis(connection)

            assert polling.health_check_interval == channel.health_check_interval
            polling.disconnect()  # closing the channel would wait


async def test_a_master_that_freezes_is_left(watched: WatchedRedis, on_broker: OnBroker) -> None:
    stage = on_broker(f"{watched.url}&health_check_interval=1")
    worker = await stage.start_worker()
    old = await watched.master()
    [frozen] = [each for each in watched.redis if each.port == old]
    assert frozen.process is not None

    frozen.process.send_signal(signal.SIGSTOP)
    try:
        await wait_until("another master", lambda: has_new_master(watched, old))
        await wait_for_all_ends(stage, await accept_runs(stage, 3))
    finally:
        frozen.process.send_signal(signal.SIGCONT)

    assert worker.returncode is None, stage.log()[-3000:]


async def test_a_master_killed_under_load_loses_no_run_and_no_worker(
    watched: WatchedRedis, on_broker: OnBroker
) -> None:
    stage = on_broker(watched.url)
    make_agents_slow(stage)
    worker = await stage.start_worker(concurrency=5)
    runs = await accept_runs(stage, RUNS)
    await stage.wait_for_turn(runs[0], 1)

    old = await watched.master()
    [killed] = [each for each in watched.redis if each.port == old]
    await killed.kill()
    runs += await accept_runs(stage, 5)
    await wait_until("another master", lambda: has_new_master(watched, old))
    runs += await accept_runs(stage, 5)
    await wait_for_all_ends(stage, runs)
    await killed.start()

    assert worker.returncode is None, stage.log()[-3000:]


async def has_new_master(watched: WatchedRedis, old: int) -> bool:
    return await watched.master() not in {0, old}


# -- Redis over TLS


async def test_runs_end_over_tls_and_where_the_server_asks_for_a_certificate(
    servers: Services, on_broker: OnBroker, certificates: Certificates
) -> None:
    redis = int((servers.redis_url or "").rsplit(":", 1)[1].split("/")[0])
    login = f"ssl_certfile={certificates.client}&ssl_keyfile={certificates.client_key}"
    async with (
        tls_in_front_of(redis, certificates) as port,
        tls_in_front_of(redis, certificates, mutual=True) as asking,
    ):
        stage = on_broker(f"rediss://localhost:{port}/0?ssl_ca_certs={certificates.ca}")
        mutual = f"rediss://localhost:{asking}/0?ssl_ca_certs={certificates.ca}&{login}"
        worker = await start_celery_worker(stage, mutual)

        await wait_for_all_ends(stage, await accept_runs(stage, 3))

        worker.terminate()
        assert await asyncio.wait_for(worker.wait(), 20) == 0


async def start_celery_worker(stage: Stage, redis_url: str) -> Process:
    """Starts a worker with the commands of Celery."""
    log = f"--logfile={stage.folder / 'worker-0.log'}"
    command = [sys.executable, "-m", "celery", "-A", "workers", "worker", "--loglevel=WARNING", log]
    environment = as_environment(replace(stage.settings, redis_url=redis_url))
    process = await asyncio.create_subprocess_exec(*command, env=environment)
    stage.workers.append(process)
    await wait_until("the worker is ready", lambda: has_logged(stage, "worker_ready"))
    return process


async def has_logged(stage: Stage, event: str) -> bool:
    return (stage.folder / "worker-0.log").exists() and event in stage.log()
