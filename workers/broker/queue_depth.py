"""Queue depth: how many messages wait in a queue of the broker.

The reconciler reads it in a thread and waits for it only a moment: a hanging Redis must not delay the reclaim of runs
whose workers died.
"""

import asyncio
import logging
from typing import Any

from amqp.exceptions import ChannelError
from celery import Celery
from kombu.exceptions import OperationalError

from workers.broker.wakeups import Wakeups

_NOT_FOUND = "404"

log = logging.getLogger(__name__)

PATIENCE_S = 1.0


def count_messages(connection: Any, queue: str) -> int:
    """Counts the messages that wait.

    Raises the errors of the transport, and blocks as long as the transport does.
    """
    with connection.channel() as channel:
        try:
            return int(channel.queue_declare(queue=queue, passive=True).message_count)
        except ChannelError as error:
            if str(error.reply_code) == _NOT_FOUND:  # no message was ever sent; on Redis: none is waiting
                return 0
            raise


class QueueDepth:
    def __init__(self, app: Celery, wakeups: Wakeups) -> None:
        self._app = app
        self._wakeups = wakeups
        self._query: asyncio.Future[int | None] | None = None
        self._is_silent = False

    async def count_waiting(self) -> int | None:
        """Counts the waiting wake-ups and those of this process that are not sent yet; None if the broker is silent.

        A wake-up that is sent meanwhile counts twice. Then a pass sends too few, and the next pass sends the rest.
        """
        unsent = self._wakeups.count_unsent()
        if self._query is None or self._query.done():  # one query at a time, however long it hangs
            self._query = asyncio.ensure_future(asyncio.to_thread(self._count_in_queue))
        try:
            async with asyncio.timeout(PATIENCE_S):
                waiting = await asyncio.shield(self._query)
        except TimeoutError:
            waiting = None
        if (waiting is None) != self._is_silent:
            self._is_silent = waiting is None
            log.warning("broker_silent" if self._is_silent else "broker_answers")
        return None if waiting is None else waiting + unsent

    def _count_in_queue(self) -> int | None:
        pool: Any = self._app.pool  # celery-types takes it for one of producers
        with pool.acquire(block=True) as connection:
            try:
                return count_messages(connection, str(self._app.conf.task_default_queue))
            except (OperationalError, OSError, *connection.connection_errors):
                return None
