"""A Redis that fell silent: noticed here, since kombu 5.6 waits for it for ever.

A worker asks for messages with BRPOP, which answers every second. A master that is frozen or cut off answers no more,
while Sentinels have long named another, and kombu looks only at connections that say something. From 5.7 on it checks
by itself; when `test_a_master_that_freezes_is_left` passes without this module, it can go.
"""

from time import monotonic
from typing import Any

from workers.broker.options import SOCKET_TIMEOUT_S


def disconnect_stalled_redis(connection: Any) -> None:
    """Raises the kind of error after which the consumer connects again."""
    for channel in list(connection.transport.cycle._channels):
        polling = channel._in_poll
        # redis-py notes with each answer when the connection is due for a look.
        if polling and monotonic() > polling.next_health_check + SOCKET_TIMEOUT_S:
            polling.disconnect()  # or closing the channel would wait for the answer
            raise ConnectionResetError("Redis has not answered for too long")
