"""Free ports: find one, or say in one line that a wanted one is taken."""

import errno
import socket

from workers.settings import Address, SettingsError


def free_address() -> Address:
    """Free at this moment; whoever binds it should do so soon."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return Address("127.0.0.1", listener.getsockname()[1])


def require_free(address: Address, *, setting: str) -> None:
    try:
        family, _, _, _, where = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        socket.create_server(where[:2], family=family).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise SettingsError(f"{address} is taken by another process; stop it or set {setting}") from None
        raise SettingsError(f"{address} cannot be listened on ({error.strerror or error}); set {setting}") from None
