"""The export of traces over OTLP: SDK, HTTP session, ids and log lines."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from typing_extensions import override

from workers.settings import Settings
from workers.tracing.process_tracing import ProcessTracing
from workers.tracing.span_ids import SpanIds
from workers.tracing.trace_settings import is_content_wanted
from workflows.context.redaction import Redactor

log = logging.getLogger(__name__)

FLUSH_TIMEOUT_S = 1.0  # a stopping worker has little more time
LOG_INTERVAL_S = 60.0


class TraceBackend(requests.Session):
    """The HTTP session of the exporter. It reads no body and follows no redirect.

    A wrong address may send a body that does not end, for which the sending thread would wait. The exporter takes a
    redirect for success, and the spans would be lost without a log line.
    """

    answer: int | str | None = None  # the status, or the type of what went wrong

    @override
    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        try:
            response = super().send(request, **{**options, "stream": True, "allow_redirects": False})
        except Exception as error:
            self.answer = type(error).__name__
            raise
        response.close()
        self.answer = response.status_code
        if response.status_code >= HTTPStatus.MULTIPLE_CHOICES and response.status_code < HTTPStatus.BAD_REQUEST:
            raise requests.TooManyRedirects(response=response)
        return response


def open_otlp_tracing(settings: Settings, endpoint: str, *, role: str, redactor: Redactor) -> ProcessTracing:
    # The SDK logs each failure in sentences; LoggingExporter logs one line per minute instead.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    ids = ChosenIds()
    # It is not made the global provider: libraries under a chat (model clients, FastAPI) have spans of their own, which
    # would double ours and may contain prompts and answers.
    provider = TracerProvider(resource=_resource(role), id_generator=ids, shutdown_on_exit=False)
    backend = TraceBackend()
    exporter = OTLPSpanExporter(endpoint=endpoint, session=backend)
    provider.add_span_processor(BatchSpanProcessor(LoggingExporter(exporter, endpoint, backend)))
    return ProcessTracing(
        provider.get_tracer("unattended"),
        role=role,
        redactor=redactor,
        with_content=is_content_wanted(settings),
        choose_ids=ids.use_ids,
        close=lambda: _shut_down(provider),
    )


def _resource(role: str) -> Resource:
    resource = Resource.create()  # reads OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        return resource.merge(Resource({SERVICE_NAME: f"unattended-{role}"}))
    return resource


def _shut_down(provider: TracerProvider, *, timeout_s: float = FLUSH_TIMEOUT_S) -> None:
    """Sends what it can within the time limit.

    An unavailable endpoint does not delay shutdown.
    """
    thread = threading.Thread(target=provider.shutdown, name="last traces", daemon=True)
    thread.start()
    thread.join(timeout_s)


class ChosenIds(RandomIdGenerator):
    """Generates random ids, except for the span of a run.

    Its ids are such that every process can compute them.
    """

    def __init__(self) -> None:
        self._chosen: ContextVar[SpanIds | None] = ContextVar("unattended_chosen_ids", default=None)

    @contextmanager
    def use_ids(self, ids: SpanIds) -> Iterator[None]:
        """Sets the ids of the span that is started inside."""
        token = self._chosen.set(ids)
        try:
            yield
        finally:
            self._chosen.reset(token)

    @override
    def generate_span_id(self) -> int:
        chosen = self._chosen.get()
        return super().generate_span_id() if chosen is None else chosen.span_id

    @override
    def generate_trace_id(self) -> int:
        chosen = self._chosen.get()
        return super().generate_trace_id() if chosen is None else chosen.trace_id


class LoggingExporter(SpanExporter):
    """Logs when spans cannot be sent, once a minute then, and when it is over."""

    def __init__(self, inner: SpanExporter, endpoint: str, backend: TraceBackend) -> None:
        self._inner = inner
        self._backend = backend
        self._host = urlsplit(endpoint).hostname
        self._lost = 0
        self._logged_at: float | None = None

    @override
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._inner.export(spans)
        if result is SpanExportResult.SUCCESS:
            self._log_recovery()
        else:
            self._log_failure(len(spans))
        return result

    def _log_failure(self, spans: int) -> None:
        self._lost += spans
        now = time.monotonic()
        if self._logged_at is None or now - self._logged_at >= LOG_INTERVAL_S:
            self._logged_at = now
            facts = {"host": self._host, "answer": self._backend.answer, "spans": self._lost}
            log.warning("traces_not_exported", extra=facts)

    def _log_recovery(self) -> None:
        if self._logged_at is not None:
            log.info("traces_exported_again", extra={"host": self._host, "spans_lost": self._lost})
            self._lost, self._logged_at = 0, None

    @override
    def shutdown(self) -> None:
        self._inner.shutdown()

    @override
    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)
