"""A receiver of traces: a real HTTP server that takes OTLP in protobuf, as Jaeger or Tempo do, and keeps the spans."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

KINDS = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}


@dataclass(frozen=True, slots=True)
class SeenSpan:
    """`links` are (trace id, span id, how) each."""

    service: str
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: Mapping[str, Any]
    links: tuple[tuple[str, str, str], ...]
    failed: bool
    lasted_s: float


@dataclass
class TraceReceiver:
    url: str = ""
    spans: list[SeenSpan] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)

    def spans_named(self, name: str) -> list[SeenSpan]:
        return [span for span in self.spans if span.name == name]

    def only_span(self, name: str) -> SeenSpan:
        [span] = self.spans_named(name)
        return span


@contextmanager
def trace_receiver() -> Iterator[TraceReceiver]:
    receiver = TraceReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.raw.append(body)
            receiver.spans.extend(decode_spans(body))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def decode_spans(body: bytes) -> Iterator[SeenSpan]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = _attributes(resource.resource.attributes)["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield SeenSpan(
                    service=service,
                    name=span.name,
                    kind=KINDS[span.kind],
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    attributes=_attributes(span.attributes),
                    links=tuple(
                        (link.trace_id.hex(), link.span_id.hex(), _attributes(link.attributes)["unattended.link"])
                        for link in span.links
                    ),
                    failed=span.status.code == 2,
                    lasted_s=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
                )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
