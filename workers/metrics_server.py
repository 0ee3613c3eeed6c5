"""A role's own /metrics: an HTTP server in a thread, on the next free port after the exporter's."""

import errno
import logging
import threading
from dataclasses import dataclass, field
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server

from workers.settings import Address

log = logging.getLogger(__name__)

PORTS_TRIED = 50


class NoFreePortError(OSError):
    """Every port that was tried is taken; the text names the setting."""


@dataclass(frozen=True, slots=True)
class MetricsServer:
    address: Address
    _server: WSGIServer = field(repr=False)
    _thread: threading.Thread = field(repr=False)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve_metrics(registry: CollectorRegistry, first: Address) -> MetricsServer:
    """`first` is the exporter's address: the other roles listen on the ports after it. Port 0 takes any."""
    candidates = range(first.port + 1, min(first.port + PORTS_TRIED, 65535) + 1) if first.port else (0,)
    for port in candidates:
        try:
            server, thread = start_http_server(port, addr=first.host, registry=registry)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            log.info("metrics_port_busy", extra={"host": first.host, "port": port})
            continue
        address = Address(first.host, server.server_port)
        log.info("metrics_listening", extra={"address": str(address)})
        return MetricsServer(address, server, thread)
    raise NoFreePortError(
        errno.EADDRINUSE,
        f"no free port in {first.host}:{first.port + 1}-{first.port + PORTS_TRIED}; set UNATTENDED_METRICS_LISTEN",
    )
