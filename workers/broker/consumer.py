"""Celery's consumer as wake-ups need it: one message at a time on RabbitMQ, no notes about messages in Redis, and never
waiting for a Redis that is silent."""

from time import monotonic
from typing import Any, ClassVar

from celery.worker.consumer import Consumer
from kombu.transport.virtual import Message
from typing_extensions import override

from workers.broker.options import SOCKET_TIMEOUT_S

_CelerySteps: Any = Consumer.Blueprint
_UNUSED_STEP = "celery.worker.consumer.delayed_delivery:DelayedDelivery"


class Ticket(Message):
    """A message that left Redis when it was read. Kombu would note it there as unacknowledged, and strike it out a
    moment later: two round trips, a fifth of a worker's CPU, for what the run document knows (docs/decisions/0011)."""

    @override
    def ack(self, multiple: bool = False) -> None:
        self._state = "ACK"

    @override
    def reject(self, requeue: bool = False) -> None:
        self._state = "REJECTED"

    @override
    def requeue(self) -> None:
        self._state = "REQUEUED"  # by the reconciler


class WakeupConsumer(Consumer):
    class Blueprint(_CelerySteps):  # type: ignore[misc]  # the type stubs know it as a variable only
        # It would declare 28 exchanges and as many queues in a RabbitMQ with quorum queues, for ETAs we never set.
        default_steps: ClassVar[list[str]] = [each for each in _CelerySteps.default_steps if each != _UNUSED_STEP]

    def __init__(self, *args: Any, **options: Any) -> None:
        # Celery would take as many messages as there are threads beside those that are worked on. They would wait
        # here, unseen by workers that are idle. `worker_disable_prefetch` prevents it on Redis, and only there.
        if options["app"].conf.task_default_queue_type == "quorum":
            options["initial_prefetch_count"] = 1
        super().__init__(*args, **options)

    @override
    def register_with_event_loop(self, hub: Any) -> None:
        """Called again after every reconnect, with an emptied loop."""
        super().register_with_event_loop(hub)
        connection: Any = self.connection
        if connection.transport.driver_type == "redis":
            consumer: Any = self.task_consumer  # type: ignore[attr-defined]  # a step of Celery sets it; it consumes after this
            consumer.no_ack, consumer.channel.Message = True, Ticket
            hub.call_repeatedly(SOCKET_TIMEOUT_S, disconnect_stalled_redis, connection)


def disconnect_stalled_redis(connection: Any) -> None:
    """Raises the kind of error after which the consumer connects again."""
    for channel in list(connection.transport.cycle._channels):
        polling = channel._in_poll
        # redis-py notes with each answer when the connection is due for a look.
        if polling and monotonic() > polling.next_health_check + SOCKET_TIMEOUT_S:
            polling.disconnect()  # or closing the channel would wait for the answer
            raise ConnectionResetError("Redis has not answered for too long")
