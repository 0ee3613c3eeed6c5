"""The Celery consumer of wake-ups, with three changes.

1. On RabbitMQ it fetches one message at a time.
2. In Redis it keeps no record of unacknowledged messages.
3. It disconnects from a Redis that no longer answers.
"""

from time import monotonic
from typing import Any, ClassVar

from celery.worker.consumer import Consumer
from kombu.transport.virtual import Message
from typing_extensions import override

from workers.broker.options import SOCKET_TIMEOUT_S

_CelerySteps: Any = Consumer.Blueprint
_UNUSED_STEP = "celery.worker.consumer.delayed_delivery:DelayedDelivery"


class Ticket(Message):
    """A message that left Redis when it was read.

    kombu would record it there as unacknowledged and delete the record a moment later: two round trips, a fifth of the
    CPU of a worker, for what the run document has anyway (docs/decisions/0011).
    """

    @override
    def ack(self, multiple: bool = False) -> None:
        self._state = "ACK"

    @override
    def reject(self, requeue: bool = False) -> None:
        self._state = "REJECTED"

    @override
    def requeue(self) -> None:
        self._state = "REQUEUED"  # the reconciler does it


class WakeupConsumer(Consumer):
    class Blueprint(_CelerySteps):  # type: ignore[misc]  # the type stubs know it as a variable only
        # The step declares 28 exchanges and as many queues in a RabbitMQ with quorum queues, for ETAs we never set.
        default_steps: ClassVar[list[str]] = [step for step in _CelerySteps.default_steps if step != _UNUSED_STEP]

    def __init__(self, *args: Any, **options: Any) -> None:
        # Celery would fetch as many messages as there are threads, beside those in progress. They would wait here,
        # out of reach of idle workers. `worker_disable_prefetch` prevents it on Redis only.
        if options["app"].conf.task_default_queue_type == "quorum":
            options["initial_prefetch_count"] = 1
        super().__init__(*args, **options)

    @override
    def register_with_event_loop(self, hub: Any) -> None:
        """Registers after each connect: Celery calls it with an emptied loop."""
        super().register_with_event_loop(hub)
        connection: Any = self.connection
        if connection.transport.driver_type == "redis":
            consumer: Any = self.task_consumer  # type: ignore[attr-defined]  # a step of Celery sets it; it consumes after this
            consumer.no_ack, consumer.channel.Message = True, Ticket
            hub.call_repeatedly(SOCKET_TIMEOUT_S, disconnect_stalled_redis, connection)


def disconnect_stalled_redis(connection: Any) -> None:
    """Disconnects from a Redis that no longer answers. kombu 5.6 waits for it for ever.

    The consumer polls with BRPOP, which replies every second. A master that is frozen or cut off does not reply,
    although Sentinels have named another one, and kombu checks only connections with a reply. kombu 5.7 checks by
    itself. The error raised here makes the consumer connect again.
    """
    for channel in list(connection.transport.cycle._channels):
        polling = channel._in_poll
        # redis-py sets the next health check with each answer.
        if polling and monotonic() > polling.next_health_check + SOCKET_TIMEOUT_S:
            polling.disconnect()  # otherwise closing the channel would wait for the answer
            raise ConnectionResetError("Redis has not answered for too long")
