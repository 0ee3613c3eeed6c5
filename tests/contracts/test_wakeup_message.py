"""The wake-up message: in Celery's own wire format, so that a plain Celery worker reads it."""

import base64
import json
import re
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from kombu.transport import redis as redis_transport

from workers.broker.publisher import TASK, VERSION, Publisher
from workers.celery import celery_config
from workers.settings import load_settings

QUEUE = "wake-ups-of-this-test"
# Ids of messages, tasks and processes differ by Celery's own doing.
ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class RecordedPushes:
    """In place of Redis: what is pushed to a list, by kombu's own transport or past it."""

    def __init__(self) -> None:
        self.lists: dict[str, list[str]] = {}

    def lpush(self, key: str, *values: str) -> None:
        self.lists.setdefault(key, []).extend(values)


@pytest.fixture
def redis(monkeypatch: pytest.MonkeyPatch) -> RecordedPushes:
    """kombu's Redis transport up to the last call, the one that would go over the network."""
    written = RecordedPushes()
    monkeypatch.setattr(redis_transport.Channel, "conn_or_acquire", lambda *_, **__: nullcontext(written))
    monkeypatch.setattr(redis_transport.Channel, "_queue_bind", lambda *_, **__: None)
    monkeypatch.setattr(redis_transport.Channel, "_size", lambda *_, **__: 0)
    monkeypatch.setattr(redis_transport.Channel, "client", SimpleNamespace(ping=lambda: True))
    return written


@pytest.fixture
def app(redis: RecordedPushes) -> Iterator[Celery]:  # noqa: ARG001 -- in its place before the first connection
    made = Celery("contract", set_as_current=False)
    made.conf.update(
        celery_config(load_settings({"UNATTENDED_REDIS_URL": "redis://nowhere", "UNATTENDED_QUEUE": QUEUE}))
    )

    @made.task(name=TASK)
    def run(message: dict[str, Any]) -> None:
        raise AssertionError(message)

    yield made
    made.close()


def without_random_ids(text: str) -> str:
    """The very bytes, but for ids, which become numbers in the order of their first appearance."""
    ids = list(dict.fromkeys(ID.findall(text)))
    return ID.sub(lambda found: f"<id {ids.index(found[0])}>", text)


def body(text: str) -> Any:
    message = json.loads(text)
    assert message["properties"]["body_encoding"] == "base64"
    return json.loads(base64.b64decode(message["body"]))


@pytest.mark.design("U-5")
def test_a_wakeup_is_byte_for_byte_what_celery_itself_would_push(app: Celery, redis: RecordedPushes) -> None:
    args: Any = [{"v": 1, "run_id": "run_1"}]
    app.tasks[TASK].apply_async(args=args)
    app.send_task(TASK, args=args, ignore_result=True)
    Publisher(app)(["run_1"])

    [celerys, celerys_by_name, ours] = redis.lists.pop(QUEUE)

    assert redis.lists == {}
    assert without_random_ids(ours) == without_random_ids(celerys) == without_random_ids(celerys_by_name)


def test_many_are_pushed_at_once_and_in_their_order(app: Celery, redis: RecordedPushes) -> None:
    run_ids = [f"run_{number}" for number in range(1_200)]

    Publisher(app)(run_ids)

    assert [body(each)[0][0]["run_id"] for each in redis.lists[QUEUE]] == run_ids
    messages = [json.loads(each) for each in redis.lists[QUEUE]]
    assert len({each["headers"]["id"] for each in messages}) == 1_200
    assert len({each["properties"]["delivery_tag"] for each in messages}) == 1_200


def test_a_wakeup_carries_a_version_and_an_id_and_nothing_else(app: Celery, redis: RecordedPushes) -> None:
    Publisher(app)(["run_1"])

    args, kwargs, embedded = body(redis.lists[QUEUE][0])
    assert args == [{"v": VERSION, "run_id": "run_1"}]
    assert VERSION == 1
    assert kwargs == {}
    assert set(embedded.values()) == {None}


def test_a_wakeup_is_json_for_the_one_task(app: Celery, redis: RecordedPushes) -> None:
    Publisher(app)(["run_1"])

    message = json.loads(redis.lists[QUEUE][0])

    assert message["content-type"] == "application/json"
    assert message["content-encoding"] == "utf-8"
    assert message["headers"]["task"] == TASK
    assert message["headers"]["retries"] == 0
    assert message["properties"]["delivery_info"]["routing_key"] == QUEUE
    assert len(redis.lists[QUEUE][0]) < 2_000


def test_an_id_that_would_need_escaping_is_refused(app: Celery) -> None:
    for run_id in ('run_"', "run_'", "run_\\", "run_é"):
        with pytest.raises(ValueError, match="escape"):
            Publisher(app)([run_id])
