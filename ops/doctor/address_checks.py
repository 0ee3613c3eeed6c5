"""Checks of the addresses on which the roles listen."""

import asyncio
import errno
import socket
from contextlib import suppress

from ops.doctor.check_result import Check
from ops.free_ports import SAME_ADDRESS_ADVICE, connectable_host, is_same_address, same_address_text
from workers.setting_values import Address

METRICS_TIMEOUT_S = 2.0
_MAX_METRICS_BYTES = 2_000_000


async def check_addresses(gateway: Address, exporter: Address) -> list[Check]:
    """Check that the two addresses differ before probing them: one of two equal ones would be free."""
    if await asyncio.to_thread(is_same_address, gateway, exporter):
        return [Check("addresses", "problem", same_address_text(gateway, exporter), SAME_ADDRESS_ADVICE)]
    checks = await asyncio.gather(
        check_address("gateway address", gateway, "UNATTENDED_LISTEN"),
        check_address("exporter address", exporter, "UNATTENDED_METRICS_LISTEN"),
    )
    return [check for found in checks for check in found]


async def check_address(
    name: str, address: Address, setting: str, *, metrics_timeout_s: float = METRICS_TIMEOUT_S
) -> list[Check]:
    error = await asyncio.to_thread(_try_bind, address)
    if error is None:
        return [Check(name, "ok", f"{address} is free")]
    if error.errno == errno.EADDRINUSE:
        if await _is_unattended(address, metrics_timeout_s):
            return [Check(name, "ok", f"{address} is in use by unattended")]
        return [Check(name, "problem", f"{address} is in use by another program", f"stop it, or set {setting}")]
    return [Check(name, "problem", f"{address} cannot be listened on ({error.strerror})", f"set {setting}")]


def _try_bind(address: Address) -> OSError | None:
    try:
        family, kind, *_, target = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(target)
            probe.listen(1)  # SO_REUSEADDR lets two sockets bind, but only one listen
    except OSError as error:
        return error
    return None


async def _is_unattended(address: Address, timeout_s: float) -> bool:
    """Look for our metrics, which every role serves on its address."""
    with suppress(OSError):  # includes TimeoutError
        async with asyncio.timeout(timeout_s):
            return b"unattended_" in await _get_metrics(connectable_host(address), address.port)
    return False


async def _get_metrics(host: str, port: int) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
        await writer.drain()
        answer = b""
        while len(answer) < _MAX_METRICS_BYTES and (part := await reader.read(65_536)):
            answer += part
        return answer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
