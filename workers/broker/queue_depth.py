"""How many messages wait in a queue."""

from typing import Any

from amqp.exceptions import ChannelError

_NOT_FOUND = "404"


def count_messages(connection: Any, queue: str) -> int:
    """Raises what the transport raises; it may wait for as long as the transport does."""
    with connection.channel() as channel:
        try:
            return int(channel.queue_declare(queue=queue, passive=True).message_count)
        except ChannelError as error:
            if str(error.reply_code) == _NOT_FOUND:  # nobody has sent anything yet; on Redis: nothing waits
                return 0
            raise
