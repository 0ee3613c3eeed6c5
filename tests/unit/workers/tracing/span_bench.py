"""A bench for spans: the tracing of a process, with spans kept in memory."""

from dataclasses import dataclass
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import DEFAULT_ON, Sampler

from workers.tracing.otlp_export import ChosenIds
from workers.tracing.process_tracing import ProcessTracing
from workflows.context.redaction import Redactor

SECRET = 'canary "7f3a" word'


@dataclass
class SpanBench:
    tracing: ProcessTracing
    exporter: InMemorySpanExporter

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def only_span(self, name: str) -> tuple[dict[str, Any], bool]:
        """Returns the attributes of the only span, and whether it failed."""
        [span] = [span for span in self.spans if span.name == name]
        return dict(span.attributes or {}), not span.status.is_ok and not span.status.is_unset


def span_bench(*, role: str = "worker", with_content: bool = False, sampler: Sampler = DEFAULT_ON) -> SpanBench:
    ids, exporter = ChosenIds(), InMemorySpanExporter()
    provider = TracerProvider(id_generator=ids, sampler=sampler, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing = ProcessTracing(
        provider.get_tracer("test"),
        role=role,
        redactor=Redactor([SECRET]),
        with_content=with_content,
        choose_ids=ids.use_ids,
        close=provider.shutdown,
    )
    return SpanBench(tracing, exporter)
