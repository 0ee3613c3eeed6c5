"""The wake-up message: in Celery's own wire format, so that a plain Celery worker reads it."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery

from workers.celery import TASK, celery_config
from workers.settings import load_settings
from workers.wakeups import VERSION, celery_publisher

QUEUE = "wake-ups-of-this-test"
# What differs from message to message by Celery's own doing.
PASSING = {"id", "root_id", "correlation_id", "delivery_tag", "reply_to", "stamps", "origin"}


@pytest.fixture
def app() -> Iterator[Celery]:
    """Our configuration on kombu's transport in memory."""
    made = Celery("contract", set_as_current=False)
    settings = load_settings({"UNATTENDED_REDIS_URL": "memory://", "UNATTENDED_QUEUE": QUEUE})
    made.conf.update({**celery_config(settings), "broker_transport_options": {}})

    @made.task(name=TASK)
    def run(message: dict[str, Any]) -> None:
        raise AssertionError(message)

    with made.connection_for_write():  # the transport's memory lasts as long as a connection
        yield made
    made.close()


def sent(app: Celery) -> list[dict[str, Any]]:
    """What lies in the queue, as it would lie in Redis."""
    with app.connection_for_read() as connection:
        channel: Any = connection.default_channel
        channel._queue_for(QUEUE)
        messages = []
        while channel._size(QUEUE):
            messages.append(channel._get(QUEUE))
        return messages


def body(message: dict[str, Any]) -> Any:
    assert message["properties"]["body_encoding"] == "base64"
    return json.loads(base64.b64decode(message["body"]))


def lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: lasting(each) for name, each in value.items() if name not in PASSING | {"body"}}
    return value


def test_a_wake_up_is_what_celery_itself_would_send(app: Celery) -> None:
    celery_publisher(app)("run_1")
    args: Any = [{"v": 1, "run_id": "run_1"}]
    app.tasks[TASK].apply_async(args=args)

    ours, celerys = sent(app)

    assert lasting(ours) == lasting(celerys)
    assert body(ours) == body(celerys)


def test_a_wake_up_carries_a_version_and_an_id_and_nothing_else(app: Celery) -> None:
    celery_publisher(app)("run_1")

    [message] = sent(app)

    args, kwargs, embedded = body(message)
    assert args == [{"v": VERSION, "run_id": "run_1"}]
    assert VERSION == 1
    assert kwargs == {}
    assert set(embedded.values()) == {None}


def test_a_wake_up_is_json_for_the_one_task(app: Celery) -> None:
    celery_publisher(app)("run_1")

    [message] = sent(app)

    assert message["content-type"] == "application/json"
    assert message["content-encoding"] == "utf-8"
    assert message["headers"]["task"] == TASK
    assert message["headers"]["retries"] == 0
    assert message["properties"]["delivery_info"]["routing_key"] == QUEUE
    assert len(json.dumps(message)) < 2_000


def test_each_wake_up_has_an_id_of_its_own(app: Celery) -> None:
    publish = celery_publisher(app)
    publish("run_1")
    publish("run_1")

    first, second = sent(app)

    assert first["headers"]["id"] != second["headers"]["id"]
