"""The metrics server of a role: /metrics, /healthz and /readyz, in own threads.

It answers independently of the event loop of the role. Under the prefork pool only the parent could serve, where
nothing is measured: that pool has neither metrics nor probes.
"""

import errno
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer
from typing_extensions import override

from workers.process.role_health import Health, health_report
from workers.setting_values import Address
from workers.settings import SettingsError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

log = logging.getLogger(__name__)

MAX_PORTS = 50
CLIENT_TIMEOUT_S = 10
POLL_INTERVAL_S = 0.1


class NoFreePortError(OSError):
    """Every port that was tried is in use. The text names the setting."""


@dataclass(frozen=True, slots=True)
class MetricsServer:
    address: Address
    _server: WSGIServer = field(repr=False)
    _thread: threading.Thread = field(repr=False)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def drop(self) -> None:
        """Closes the inherited socket in a forked copy of this process."""
        self._server.socket.close()


def serve_metrics(
    registry: CollectorRegistry, first: Address, health: Health | None = None, *, max_ports: int = MAX_PORTS
) -> MetricsServer:
    """Serves on the first free port.

    `first` is the address of the exporter: other roles listen on the ports after it. Port 0 takes any.
    """
    candidates = range(first.port + 1, min(first.port + max_ports, 65535) + 1) if first.port else (0,)
    for port in candidates:
        try:
            server = serve_at(make_wsgi_app(registry), Address(first.host, port), health)
        except OSError:
            log.info("metrics_port_busy", extra={"host": first.host, "port": port})
            continue
        log.info("metrics_listening", extra={"address": str(server.address)})
        return server
    raise NoFreePortError(
        errno.EADDRINUSE,
        f"no free port in {first.host}:{first.port + 1}-{first.port + max_ports}; set UNATTENDED_METRICS_LISTEN",
    )


def serve_at(metrics: "WSGIApplication", address: Address, health: Health | None = None) -> MetricsServer:
    """Serves on exactly this address. OSError: it is in use.

    SettingsError: this machine does not have it.
    """
    try:
        return _serve(_app(metrics, health or Health()), address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise
        advice = "write an address of this machine, such as 127.0.0.1:9400"
        raise SettingsError(f"UNATTENDED_METRICS_LISTEN={address}: {error.strerror}; {advice}") from None


def _serve(app: "WSGIApplication", address: Address) -> MetricsServer:
    family, _, _, _, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]

    class Server(ThreadingWSGIServer):
        address_family = family

        @override
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Logs no traceback for a client that hung up or sent nothing."""
            log.debug("metrics_request_failed")

    server = make_server(str(place[0]), address.port, app, Server, handler_class=_Handler)
    thread = threading.Thread(target=server.serve_forever, args=(POLL_INTERVAL_S,), name="metrics", daemon=True)
    thread.start()
    return MetricsServer(Address(address.host, server.server_port), server, thread)


class _Handler(WSGIRequestHandler):
    timeout = CLIENT_TIMEOUT_S  # a silent client must not keep its thread for ever

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: probes and scrapes come every few seconds."""


def _app(metrics: "WSGIApplication", health: Health) -> "WSGIApplication":
    checks: dict[str, Callable[[], Sequence[str]]] = {"/healthz": health.live, "/readyz": health.ready}

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        check = checks.get(environ["PATH_INFO"])
        if check is None:
            return metrics(environ, start_response)
        problems = check()
        start_response(
            "503 Service Unavailable" if problems else "200 OK",
            [("Content-Type", "application/json"), ("Cache-Control", "no-store")],
        )
        return [json.dumps(health_report(problems)).encode() + b"\n"]

    return answer
