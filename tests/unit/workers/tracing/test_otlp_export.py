"""The OTLP export: spans name us as their source; an outage is logged once."""

import logging
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from workers.tracing import otlp_export
from workers.tracing.otlp_export import LoggingExporter, TraceBackend


class Collector(SpanExporter):
    is_there = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002 -- the interface's
        return SpanExportResult.SUCCESS if self.is_there else SpanExportResult.FAILURE


def test_lost_spans_are_logged_once_a_minute_and_at_their_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(otlp_export, "time", SimpleNamespace(monotonic=lambda: now))
    collector = Collector()
    backend = TraceBackend()
    backend.answer = 401
    exporter = LoggingExporter(collector, "http://key@collector:4318/v1/traces", backend)
    spans: Any = [None, None]

    with caplog.at_level(logging.INFO):
        for now in (0.0, 1.0, 59.0, 61.0):  # noqa: B007 -- the time
            exporter.export(spans)
        collector.is_there = True
        exporter.export(spans)
        exporter.export(spans)

    logged = [
        (record.getMessage(), *(getattr(record, name, None) for name in ("host", "answer", "spans")))
        for record in caplog.records
    ]
    assert logged == [
        ("traces_not_exported", "collector", 401, 2),
        ("traces_not_exported", "collector", 401, 8),
        ("traces_exported_again", "collector", None, None),
    ]


def test_stopping_waits_only_so_long_for_an_endpoint_that_hangs() -> None:
    over = threading.Event()
    hanging: Any = SimpleNamespace(shutdown=over.wait)

    otlp_export._shut_down(hanging, timeout_s=0.05)

    assert not over.is_set()
    over.set()


@pytest.mark.parametrize(
    ("variable", "value", "name"),
    [
        ("OTHER", "x", "unattended-gateway"),
        ("OTEL_SERVICE_NAME", "mine", "mine"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=ours,zone=a", "ours"),
    ],
)
def test_a_service_has_its_roles_name_unless_it_was_given_one(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, name: str
) -> None:
    monkeypatch.setenv(variable, value)

    assert otlp_export._resource("gateway").attributes["service.name"] == name
