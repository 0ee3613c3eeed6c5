"""Free ports: find one, or say in one line that a wanted one is taken."""

import errno
import socket
from collections.abc import Container

from workers.process.metrics_server import MAX_PORTS
from workers.setting_values import Address
from workers.settings import SettingsError


def find_free_address() -> Address:
    """Free at this moment; whoever binds it should do so soon."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return Address("127.0.0.1", listener.getsockname()[1])


def resolve_port(address: Address) -> Address:
    """With port 0, which means any, the one that it shall be."""
    if address.port:
        return address
    with _open_listener(address) as listener:
        return Address(address.host, listener.getsockname()[1])


def find_next_free(address: Address, *, excluded_ports: Container[int]) -> Address:
    """The first port after this one that is free at this moment."""
    for port in range(address.port + 1, min(address.port + MAX_PORTS, 65535) + 1):
        try:
            if port not in excluded_ports:
                _open_listener(Address(address.host, port)).close()
                return Address(address.host, port)
        except OSError:
            continue
    raise SettingsError(f"no free port after {address}; set UNATTENDED_METRICS_LISTEN")


def is_same_address(first: Address, second: Address) -> bool:
    """Whether only one of the two can be listened on."""
    if first.port != second.port or first.port == 0:
        return False
    hosts = _numeric_host(first), _numeric_host(second)
    if len({":" in host for host in hosts}) == 2:  # IPv4 and IPv6 do not meet
        return False
    return hosts[0] == hosts[1] or any(host in ("0.0.0.0", "::") for host in hosts)  # noqa: S104 -- not bound, compared


def _numeric_host(address: Address) -> str:
    try:
        return str(socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][4][0])
    except OSError:
        return address.host


def require_distinct(gateway: Address, exporter: Address) -> None:
    if is_same_address(gateway, exporter):
        raise SettingsError(
            f"the gateway at {gateway} and the exporter at {exporter} are in each other's way; "
            "set UNATTENDED_METRICS_LISTEN to another port"
        )


def require_free(address: Address, *, setting: str) -> None:
    try:
        _open_listener(address).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise SettingsError(f"{address} is taken by another process; stop it or set {setting}") from None
        raise SettingsError(f"{address} cannot be listened on ({error.strerror or error}); set {setting}") from None


def _open_listener(address: Address) -> socket.socket:
    family, _, _, _, where = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
    return socket.create_server(where[:2], family=family)
