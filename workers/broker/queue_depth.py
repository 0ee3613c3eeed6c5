"""Queue depth: how many messages wait in a queue of the broker."""

from typing import Any

from amqp.exceptions import ChannelError

_NOT_FOUND = "404"


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
