"""Ports of the loopback interface."""

import asyncio
import random
import socket
from collections.abc import Callable
from contextlib import suppress

LOOPBACK = "127.0.0.1"
# Below the ports that systems give to outgoing connections: those could take the port of a server that restarts.
_SERVER_PORTS = range(24_000, 32_000)
_MAX_TRIES = 20


def find_free_port(preferred: int | None = None) -> int:
    """Returns the preferred port if it is free, else another free one. Another process may still take it first."""
    others = random.SystemRandom().sample(_SERVER_PORTS, _MAX_TRIES)
    for candidate in (preferred, *others, 0):
        if candidate is not None and (port := _try_bind(candidate)):
            return port
    raise OSError("no free port on the loopback interface")


def _try_bind(port: int) -> int:
    with socket.socket() as probe:
        # As the servers do: a port whose old connections are in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except (OSError, OverflowError):
            return 0
        return int(probe.getsockname()[1])


async def wait_port_open(port: int, is_alive: Callable[[], bool] = lambda: True) -> bool:
    """Returns true when the port is open, false when the process has died."""
    while is_alive():
        if await is_port_open(port):
            return True
        await asyncio.sleep(0.005)
    return False


async def is_port_open(port: int) -> bool:
    try:
        async with asyncio.timeout(1):
            _, writer = await asyncio.open_connection(LOOPBACK, port)
    except OSError:  # includes TimeoutError
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True
