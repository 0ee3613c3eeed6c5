"""The publisher of wake-ups.

It sends them in batches into Redis, and one by one through Celery into RabbitMQ.
"""

from collections.abc import Callable, Sequence
from typing import Any

from celery import Celery

from workers.broker.wire_format import WireFormat

Publish = Callable[[Sequence[str]], None]
TASK = "unattended.run"
VERSION = 1
# Half a megabyte per command, so that a busy Redis is not blocked for long.
BATCH_SIZE = 500


class Publisher:
    """Publishes over one connection of its own, opened on first use.

    One thread calls it.
    """

    def __init__(self, app: Celery, *, batch_size: int = BATCH_SIZE) -> None:
        self._app = app
        self._batch_size = batch_size
        self._connection: Any = None
        self._send: Publish | None = None

    def __call__(self, run_ids: Sequence[str]) -> None:
        """Publishes all runs. Raises if the broker did not accept all of them."""
        try:
            send = self._send or self._open()
            send(run_ids)
        except Exception:
            # The next call reconnects: with Sentinels it asks again for the master, and a late reply of the broker is
            # never taken for the reply to another command.
            self.close()
            raise

    def close(self) -> None:
        """Closes the connection without a handshake.

        A broker that does not answer would block it.
        """
        connection, self._connection, self._send = self._connection, None, None
        if connection is not None:
            connection.collect()

    def _open(self) -> Publish:
        self._connection = self._app.connection_for_write()
        # Each host once, without pauses: the reconciler does the retries.
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
        """Sends through a channel of kombu, which handles Sentinels, TLS and prefixes.

        It skips what kombu does for each message.
        """
        wire_format = WireFormat(self._app, TASK, VERSION)
        channel = self._connection.channel()

        def send(run_ids: Sequence[str]) -> None:
            with channel.conn_or_acquire() as client:
                for start in range(0, len(run_ids), self._batch_size):
                    batch = run_ids[start : start + self._batch_size]
                    client.lpush(wire_format.queue, *map(wire_format.message, batch))

        return send
