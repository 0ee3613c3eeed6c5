"""Free ports: finds one, or reports in one line that a configured address is in use."""

import errno
import socket
from collections.abc import Container

from workers.process.metrics_server import MAX_PORTS
from workers.setting_values import Address
from workers.settings import SettingsError

LOOPBACK_BY_ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 -- not bound, replaced
SAME_ADDRESS_ADVICE = "set UNATTENDED_METRICS_LISTEN to another port"


def find_free_address() -> Address:
    """Return a free address; bind it soon, before another process does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return Address("127.0.0.1", listener.getsockname()[1])


def resolve_port(address: Address) -> Address:
    """Replace port 0, which means any, by a free port."""
    if address.port:
        return address
    with _open_listener(address) as listener:
        return Address(address.host, listener.getsockname()[1])


def find_next_free(address: Address, *, excluded_ports: Container[int]) -> Address:
    """Return the first free port after this one."""
    for port in range(address.port + 1, min(address.port + MAX_PORTS, 65535) + 1):
        try:
            if port not in excluded_ports:
                _open_listener(Address(address.host, port)).close()
                return Address(address.host, port)
        except OSError:
            continue
    raise SettingsError(f"no free port after {address}; set UNATTENDED_METRICS_LISTEN")


def is_same_address(first: Address, second: Address) -> bool:
    """Whether the two cannot listen at the same time."""
    if first.port != second.port or first.port == 0:
        return False
    hosts = _numeric_host(first), _numeric_host(second)
    if len({":" in host for host in hosts}) == 2:  # IPv4 and IPv6 do not collide
        return False
    return hosts[0] == hosts[1] or any(host in LOOPBACK_BY_ANY_HOST for host in hosts)


def connectable_host(address: Address) -> str:
    """Replace the host that means all interfaces, which clients cannot connect to, by the loopback."""
    return LOOPBACK_BY_ANY_HOST.get(address.host, address.host)


def same_address_text(gateway: Address, exporter: Address) -> str:
    return f"the gateway at {gateway} and the exporter at {exporter} use the same address"


def _numeric_host(address: Address) -> str:
    try:
        return str(socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][4][0])
    except OSError:
        return address.host


def require_distinct(gateway: Address, exporter: Address) -> None:
    if is_same_address(gateway, exporter):
        raise SettingsError(f"{same_address_text(gateway, exporter)}; {SAME_ADDRESS_ADVICE}")


def require_free(address: Address, *, setting: str) -> None:
    try:
        _open_listener(address).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise SettingsError(f"{address} is taken by another process; stop it or set {setting}") from None
        raise SettingsError(f"{address} cannot be listened on ({error.strerror or error}); set {setting}") from None


def _open_listener(address: Address) -> socket.socket:
    family, _, _, _, socket_address = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
    return socket.create_server(socket_address[:2], family=family)
