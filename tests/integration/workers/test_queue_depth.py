"""The queue depth of a real Redis, also of an empty and of a silent one."""

import socket
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from celery import Celery

from tests.integration.stage import Stage
from workers.broker.queue_depth import QueueDepth
from workers.broker.wakeups import Wakeups
from workers.celery import celery_config
from workers.settings import Settings

pytestmark = pytest.mark.integration


@pytest.fixture
async def silent_redis(settings: Settings) -> AsyncIterator[Settings]:
    """Accepts connections and never answers, like a stopped Redis."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield replace(settings, redis_url=f"redis://127.0.0.1:{server.getsockname()[1]}/0")


def _unsent(settings: Settings) -> QueueDepth:
    app = Celery("asking", set_as_current=False)
    app.conf.update(celery_config(settings))
    return QueueDepth(app, Wakeups(lambda _: None))


async def test_what_was_sent_waits_until_it_is_taken_or_lost(stage: Stage) -> None:
    tickets = QueueDepth(stage.app, stage.wakeups)
    assert await tickets.count_waiting() == 0

    for number in range(3):
        stage.wakeups.send(f"run_{number}")
    waiting = await tickets.count_waiting()
    assert waiting is not None  # in delivery, and possibly counted twice
    assert 3 <= waiting <= 6
    await stage.wakeups.wait_until_published()
    assert await tickets.count_waiting() == 3

    with stage.app.connection_for_write() as connection:
        connection.default_channel.queue_purge(stage.settings.queue)
    assert await tickets.count_waiting() == 0


async def test_a_redis_that_refuses_is_known_to_be_silent(settings: Settings) -> None:
    assert await _unsent(replace(settings, redis_url="redis://127.0.0.1:1/0")).count_waiting() is None


async def test_a_frozen_redis_delays_no_call_for_long(silent_redis: Settings) -> None:
    tickets = _unsent(silent_redis)

    began = time.monotonic()
    assert await tickets.count_waiting() is None

    assert time.monotonic() - began < 4
