"""Ports of the loopback interface."""

import asyncio
import socket
from contextlib import suppress

LOOPBACK = "127.0.0.1"


def free_port(preferred: int | None = None) -> int:
    """The preferred port if nobody has it, else one that nobody has; someone may still be faster than us."""
    for candidate in (preferred, 0):
        if candidate is not None and (port := _bind(candidate)):
            return port
    raise OSError("no free port on the loopback interface")


def _bind(port: int) -> int:
    with socket.socket() as probe:
        # As the servers do it: a port whose old connections are in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except (OSError, OverflowError):
            return 0
        return int(probe.getsockname()[1])


async def until_port_open(port: int) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection(LOOPBACK, port)
        except OSError:
            await asyncio.sleep(0.005)
        else:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            return
