"""The trace backend: only the status of an answer counts."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExportResult

from workers.tracing.otlp_export import TraceBackend


class AnsweringBackend(Protocol):
    def __call__(self, head: bytes, body: bytes = b"") -> str: ...


@pytest.fixture
def answering() -> Iterator[AnsweringBackend]:
    """A server that answers with a head, and repeats a body while the client reads."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(head: bytes, body: bytes) -> None:
        with suppress(OSError):  # closed by the client
            while True:
                caller, _ = listener.accept()
                with caller, suppress(OSError):
                    caller.recv(65_536)
                    caller.sendall(head)
                    while body:
                        caller.sendall(body)

    def start(head: bytes, body: bytes = b"") -> str:
        threading.Thread(target=serve, args=(head, body), daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/v1/traces"

    yield start
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.mark.timeout(10)
def test_an_answer_without_end_is_not_read(answering: AnsweringBackend) -> None:
    backend = TraceBackend()
    exporter = OTLPSpanExporter(endpoint=answering(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65_536), session=backend)

    assert exporter.export([]) is SpanExportResult.SUCCESS
    assert backend.answer == 200


@pytest.mark.parametrize("status", [302, 308, 401])
def test_only_what_was_taken_counts_as_sent(answering: AnsweringBackend, status: int) -> None:
    head = f"HTTP/1.1 {status} No\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n"
    backend = TraceBackend()
    exporter = OTLPSpanExporter(endpoint=answering(head.encode()), session=backend)

    assert exporter.export([]) is SpanExportResult.FAILURE
    assert backend.answer == status


def test_an_endpoint_that_does_not_answer_is_reported_with_the_cause() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    backend = TraceBackend()
    exporter = OTLPSpanExporter(endpoint=f"http://127.0.0.1:{port}/v1/traces", session=backend, timeout=0.05)

    assert exporter.export([]) is SpanExportResult.FAILURE
    assert backend.answer == "ConnectionError"
