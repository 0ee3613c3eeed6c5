"""Ports of servers that tests stop and start again.

Linux gives the ports of its local range to connections and to servers on port 0. So while a server on such a port is
down, another process may get it: the server cannot start again, or its clients reach another server.
"""

import os
import random
from itertools import chain

from ops.embedded.loopback_ports import find_free_port

_FIRST, _AFTER_LAST = 12_000, 24_000  # below the local range, and without the default ports of servers
_PROCESSES = 8  # of one pytest; each takes ports of its own part

_taken: set[int] = set()


def lasting_port() -> int:
    """Returns a port that stays free while its server is down."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _PROCESSES
    part = (_AFTER_LAST - _FIRST) // _PROCESSES
    first = _FIRST + number * part
    start = first + random.randrange(part)
    for port in chain(range(start, first + part), range(first, start)):
        if port not in _taken and find_free_port(port) == port:
            _taken.add(port)
            return port
    raise OSError(f"no free port from {first} to {first + part}")
