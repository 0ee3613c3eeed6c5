"""The metrics server of a role: on the next free loopback port, until it is closed."""

import http.client
import json
import socket
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Gauge

from workers.process.metrics_server import NoFreePortError, serve_metrics
from workers.process.role_health import Health
from workers.setting_values import Address
from workers.settings import SettingsError


@pytest.fixture
def registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    Gauge("answer", "The answer", registry=registry).set(42)
    return registry


@pytest.fixture
def busy() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def test_a_busy_port_is_skipped_with_a_log_line(
    registry: CollectorRegistry, busy: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    server = serve_metrics(registry, Address("127.0.0.1", busy - 1))
    try:
        assert server.address.host == "127.0.0.1"
        assert busy < server.address.port <= busy + 50
        with urllib.request.urlopen(f"http://{server.address}/metrics", timeout=5) as answer:
            assert b"answer 42.0" in answer.read()
    finally:
        server.close()
    assert caplog.records[0].message == "metrics_port_busy"


@pytest.mark.parametrize(
    ("path", "status", "report"),
    [("/healthz", 200, {"status": "ok"}), ("/readyz", 503, {"status": "failing", "problems": ["it waits"]})],
)
def test_probes_are_answered_beside_the_metrics(
    registry: CollectorRegistry, path: str, status: int, report: dict[str, object]
) -> None:
    health = Health(ready=lambda: ["it waits"])
    server = serve_metrics(registry, Address("127.0.0.1", 0), health)
    try:
        connection = http.client.HTTPConnection(server.address.host, server.address.port, timeout=5)
        connection.request("GET", path)
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())) == (status, report)
        connection.close()
    finally:
        server.close()


def test_a_closed_server_frees_its_port(registry: CollectorRegistry) -> None:
    first = serve_metrics(registry, Address("127.0.0.1", 0))
    first.close()

    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", first.address.port))


def test_no_port_left_is_one_clear_error(registry: CollectorRegistry, busy: int) -> None:
    with pytest.raises(NoFreePortError, match="UNATTENDED_METRICS_LISTEN"):
        serve_metrics(registry, Address("127.0.0.1", busy - 1), max_ports=1)


def test_a_place_that_is_not_here_is_one_clear_error(registry: CollectorRegistry) -> None:
    with pytest.raises(SettingsError, match=r"UNATTENDED_METRICS_LISTEN=192.0.2.1:9401: .*; write an address of this"):
        serve_metrics(registry, Address("192.0.2.1", 9400))
