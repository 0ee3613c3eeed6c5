"""Redis clients of the product: redis-py under kombu, redis-py alone, and asyncio."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from redis import Redis
from redis.exceptions import RedisError

from ops.doctor.broker_checks import _check_persistence
from ops.embedded.binaries import ServerBinary
from ops.embedded.embedded_redis import redis_spec
from tests.unit.workers.broker.conftest import QUEUE, FakeRedis
from workers.broker.publisher import TASK, Publisher
from workers.broker.queue_depth import count_messages
from workers.broker.wakeups import Wakeups

pytestmark = pytest.mark.design("U-4")

# In each message: the id of the Celery task and the delivery tag of kombu.
OWN_HEADERS = {"id", "root_id", "argsrepr"}
OWN_PROPERTIES = {"correlation_id", "delivery_tag", "reply_to"}


@pytest.fixture
def publish(fake_redis: FakeRedis) -> Iterator[Publisher]:
    made = Publisher(fake_redis.app())
    yield made
    made.close()


@pytest.fixture
def client(fake_redis: FakeRedis) -> Iterator[Redis]:
    with Redis(host="127.0.0.1", port=fake_redis.port) as made:
        yield made


def pop_message(app: Celery) -> list[Any]:
    """Takes all waiting messages in the order in which a worker gets them."""
    with app.connection_for_read() as connection:
        channel: Any = connection.default_channel
        found = iter(lambda: channel.basic_get(QUEUE, no_ack=True), None)
        return list(found)


def test_wakeups_are_pushed_in_batches_and_taken_in_order(
    fake_redis: FakeRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = Publisher(fake_redis.app(), batch_size=3)
    pushed: list[int] = []
    push = Redis.lpush

    def count_push(self: Redis, name: str, *values: Any) -> Any:
        pushed.append(len(values))
        return push(self, name, *values)

    monkeypatch.setattr(Redis, "lpush", count_push)
    run_ids = [f"run_{number}" for number in range(8)]

    publish(run_ids)
    publish.close()

    messages = pop_message(fake_redis.app())
    assert pushed == [3, 3, 2]
    assert len({message.properties["delivery_tag"] for message in messages}) == len(run_ids)
    assert len({message.headers["id"] for message in messages}) == len(run_ids)
    assert [message.payload[0] for message in messages] == [[{"v": 1, "run_id": run_id}] for run_id in run_ids]


def test_a_batch_is_what_celery_itself_would_have_sent(fake_redis: FakeRedis, publish: Publisher) -> None:
    app = fake_redis.app()
    publish(["run_1"])
    app.send_task(TASK, args=[{"v": 1, "run_id": "run_1"}], ignore_result=True)

    ours, celerys = pop_message(app)

    assert ours.payload == celerys.payload
    assert ours.headers["argsrepr"].count("run_1") == 1
    for part, own in (("headers", OWN_HEADERS), ("properties", OWN_PROPERTIES)):
        one, other = getattr(ours, part), getattr(celerys, part)
        assert one.keys() == other.keys()
        assert {name: one[name] for name in one if name not in own} == {
            name: other[name] for name in other if name not in own
        }
    assert ours.headers["id"] == ours.properties["correlation_id"] != celerys.headers["id"]


def test_the_length_of_a_queue_is_that_of_its_list(fake_redis: FakeRedis, publish: Publisher) -> None:
    app = fake_redis.app()
    with app.connection_for_read() as connection:
        before = count_messages(connection, QUEUE)
        publish(["run_1", "run_2", "run_3"])
        waiting, of_another = count_messages(connection, QUEUE), count_messages(connection, f"{QUEUE}-of-another")
        pop_message(app)

        assert (before, waiting, of_another, count_messages(connection, QUEUE)) == (0, 3, 0, 0)


def test_a_refused_push_is_an_error_and_the_next_one_connects_anew(
    fake_redis: FakeRedis, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = fake_redis.app()
    opened: list[Any] = []
    connect = app.connection_for_write

    def noted() -> Any:
        opened.append(connect())
        return opened[-1]

    monkeypatch.setattr(app, "connection_for_write", noted)
    publish = Publisher(app)
    publish(["run_1"])
    at_first = len(opened)
    publish(["run_2"])
    at_second = len(opened)
    client.delete(QUEUE)
    client.set(QUEUE, "no list")
    with pytest.raises(RedisError, match="WRONGTYPE"):
        publish(["run_3"])

    client.delete(QUEUE)
    publish(["run_4"])

    assert [message.payload[0][0]["run_id"] for message in pop_message(app)] == ["run_4"]
    assert at_first == at_second < len(opened)  # behind Sentinels the master may have changed
    publish.close()


async def test_wakeups_are_left_to_the_reconciler_while_redis_is_away(
    fake_redis: FakeRedis, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    app = fake_redis.app()
    wakeups = Wakeups(Publisher(app))
    wakeups.start()
    fake_redis.stop()
    for number in range(3):
        wakeups.send(f"run_{number}")
    await wakeups.wait_until_published()
    unsent = wakeups.count_unsent()
    fake_redis.start()
    wakeups.send("run_3")
    await wakeups.stop()

    assert unsent == 0
    assert [message.payload[0][0]["run_id"] for message in pop_message(app)] == ["run_3"]
    left = next(record for record in caplog.records if record.getMessage() == "wakeups_flow_again")
    assert vars(left)["left_to_reconciler"] == 3


async def test_another_redis_on_our_port_is_not_taken_for_ours(fake_redis: FakeRedis, tmp_path: Path) -> None:
    """It answers PING, but has another directory or does not report it."""
    spec = redis_spec(ServerBinary(Path("redis-server"), "8", "PATH"), folder=tmp_path, log=tmp_path / "log")
    looks = iter([True] * 5)

    assert not await spec.wait_ready(fake_redis.port, lambda: next(looks, False))


def test_the_doctor_warns_of_a_redis_that_hides_its_configuration(client: Redis) -> None:
    hidden, kept = _check_persistence(client, {}), _check_persistence(client, {"aof_enabled": 1})

    assert (hidden.level, hidden.found) == ("warning", "append-only file off, snapshots unknown")
    assert kept.level == "ok"
