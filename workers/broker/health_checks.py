"""Health checks of connections to Redis: kombu must be told that there is such an option.

It passes `health_check_interval` on only where the constructor of a connection, or of a base, names it. Behind
Sentinels none does, and from redis-py 8 on none at all: a decorator hides the signature. Then no answer is noted, and
`leave_silent_redis` would take a Redis that is well for a silent one.
"""

from typing import Any

from kombu.transport import redis as kombu_redis


def enable_health_checks() -> None:
    transport: Any = kombu_redis
    transport.accepts_argument = _accepts_option  # asked for this option only


def _accepts_option(_constructor: object, _option: str) -> bool:
    return True  # every redis-py that we may be installed with does
