"""Taking the port, before anything else is opened, and as many descriptors as there are."""

import resource
import socket

import pytest

from triggers.gateway.gateway_role import bind_socket
from triggers.gateway.gateway_server import raise_descriptor_limit
from workers.setting_values import Address
from workers.settings import SettingsError


def test_a_taken_port_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        with pytest.raises(SettingsError) as refused, bind_socket(Address("127.0.0.1", port)):
            pass

    expected = f"127.0.0.1:{port} is taken by another process; stop it or set UNATTENDED_LISTEN"
    assert str(refused.value) == expected


def test_an_address_that_is_not_ours_is_one_clear_line() -> None:
    with (
        pytest.raises(SettingsError, match=r"192\.0\.2\.1:8400 cannot be listened on"),
        bind_socket(Address("192.0.2.1", 8400)),
    ):
        pass


def test_a_free_port_is_listened_on() -> None:
    with bind_socket(Address("127.0.0.1", 0)) as listener:
        socket.create_connection(listener.getsockname()).close()


def test_a_connection_sends_what_it_has_at_once() -> None:
    with (
        bind_socket(Address("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_gateway_may_have_as_many_descriptors_as_the_system_allows() -> None:
    before = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, soft), hard))
    try:
        assert raise_descriptor_limit() == hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
