"""Publishing wake-ups, many at once: in batches into Redis, one after the other through Celery into RabbitMQ."""

from collections.abc import Callable, Sequence
from typing import Any

from celery import Celery

from workers.broker.wire_format import WireFormat

Publish = Callable[[Sequence[str]], None]
TASK = "unattended.run"
VERSION = 1
# Half a megabyte in one command: a Redis with much to do is not kept from it for long.
BATCH = 500


class Publisher:
    """Over one connection of its own, opened when first needed; called from one thread only."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._connection: Any = None
        self._send: Publish | None = None

    def __call__(self, run_ids: Sequence[str]) -> None:
        """Raises when the broker did not take them all."""
        try:
            send = self._send or self._open()
            send(run_ids)
        except Exception:
            # The next call connects anew: with Sentinels it asks again who is master, and what a broker said too
            # late is never taken for the answer to something else.
            self.close()
            raise

    def close(self) -> None:
        """Without a farewell: a broker that does not answer would be waited for."""
        connection, self._connection, self._send = self._connection, None, None
        if connection is not None:
            connection.collect()

    def _open(self) -> Publish:
        self._connection = self._app.connection_for_write()
        # Each host once and at once: the reconciler is the one that tries again.
        hosts = max(1, len(self._connection.alt))
        self._connection.ensure_connection(max_retries=hosts, interval_start=0, interval_step=0, interval_max=0)
        is_amqp = self._connection.transport.driver_type == "amqp"
        self._send = self._celery_sender() if is_amqp else self._redis_sender()
        return self._send

    def _celery_sender(self) -> Publish:
        producer = self._app.amqp.Producer(self._connection)

        def send(run_ids: Sequence[str]) -> None:
            for run_id in run_ids:
                message = {"v": VERSION, "run_id": run_id}
                self._app.send_task(TASK, args=[message], ignore_result=True, producer=producer)

        return send

    def _redis_sender(self) -> Publish:
        """Through kombu's channel, which knows about Sentinels, TLS and prefixes, past what it does per message."""
        wire_format = WireFormat(self._app, TASK, VERSION)
        channel = self._connection.channel()

        def send(run_ids: Sequence[str]) -> None:
            with channel.conn_or_acquire() as client:
                for start in range(0, len(run_ids), BATCH):
                    client.lpush(wire_format.queue, *map(wire_format.message, run_ids[start : start + BATCH]))

        return send


def celery_publisher(app: Celery) -> Publisher:
    return Publisher(app)
