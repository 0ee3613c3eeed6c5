"""Process tracing: the spans of the triggers and runs of one process."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, TraceFlags, Tracer
from opentelemetry.trace.propagation import set_span_in_context

from workers.logs import log_context
from workers.store.run import Accepted, Claim, RunRequest, RunState
from workers.store.run_repository import LinkedRuns
from workers.tracing import span_attributes
from workers.tracing.run_spans import Content, RunSpans, mark_failed
from workers.tracing.span_ids import SpanIds, parse_traceparent, previous_owner_ids, span_ids_of
from workers.tracing.tracing import TracedRequest, current_request
from workflows.context.redaction import Redactor
from workflows.outcome import Outcome
from workflows.spans import NO_SPANS, Spans

ChooseIds = Callable[[SpanIds], AbstractContextManager[None]]

_KINDS = {"gateway": SpanKind.SERVER, "watcher": SpanKind.CONSUMER, "scheduler": SpanKind.INTERNAL}


class ProcessTracing:
    is_on = True

    def __init__(
        self,
        tracer: Tracer,
        *,
        role: str,
        redactor: Redactor,
        with_content: bool,
        choose_ids: ChooseIds,
        close: Callable[[], None],
    ) -> None:
        self._tracer = tracer
        self._kind = _KINDS.get(role, SpanKind.PRODUCER)
        self._content = Content(redactor, is_wanted=with_content)
        self._choose_ids = choose_ids
        self._runs: dict[tuple[str, int], RunSpans] = {}
        self.close = close

    def start_trigger_span(self, request: RunRequest) -> TracedRequest:
        call = current_request()
        parent = parse_traceparent(call.traceparent) if call is not None else None
        span = self._tracer.start_span(
            f"trigger {request.workflow}/{request.trigger.name}",
            context=_parent_context(parent),
            kind=self._kind,
            attributes={
                span_attributes.WORKFLOW: request.workflow,
                span_attributes.APP_ID: request.app_id,
                span_attributes.TRIGGER_TYPE: request.trigger.type,
                span_attributes.TRIGGER_NAME: request.trigger.name,
            },
            start_time=None if call is None else call.began_ns,
        )
        return _RecordedRequest(span, replace(request, traceparent=_ids(span).as_traceparent()))

    @contextmanager
    def run_span(self, claim: Claim) -> Iterator[None]:
        span = self._start_run_span(claim)
        key = (claim.run_id, claim.token)
        if not span.is_recording():  # the sampling decision of the parent applies to the whole run
            yield
            return
        self._runs[key] = spans = RunSpans(self._tracer, span, claim.document, self._content)
        try:
            with log_context(**log_fields(span)):
                yield
        finally:
            del self._runs[key]
            spans.close()

    def _start_run_span(self, claim: Claim) -> Span:
        run = claim.document
        previous = previous_owner_ids(run)
        with self._choose_ids(span_ids_of(run, token=claim.token)):
            return self._tracer.start_span(
                f"invoke_workflow {run['workflow']}",
                context=_parent_context(parse_traceparent(run.get("traceparent"))),
                links=[] if previous is None else [_link(previous, "resumes")],
                attributes={
                    span_attributes.OPERATION: "invoke_workflow",
                    span_attributes.WORKFLOW_NAME: run["workflow"],
                    span_attributes.WORKFLOW: run["workflow"],
                    span_attributes.CONVERSATION: claim.run_id,
                    span_attributes.RUN_ID: claim.run_id,
                    span_attributes.APP_ID: run["app_id"],
                    span_attributes.TRIGGER_TYPE: run["trigger"]["type"],
                    span_attributes.TRIGGER_NAME: run["trigger"]["name"],
                    span_attributes.ATTEMPT: claim.attempt,
                    span_attributes.WORKER: claim.owner,
                },
            )

    async def link_related_runs(self, claim: Claim, runs: LinkedRuns) -> None:
        spans, run = self._runs.get((claim.run_id, claim.token)), claim.document
        relations = {run.get("parent_run_id"): "follows", run.get("replay_of"): "replays"}
        relations.pop(None, None)
        if spans is None or not relations or run.get("history"):
            return
        for other in await runs.find_linked([run_id for run_id in relations if run_id is not None]):
            link = _link(span_ids_of(other, token=other["lease"]["token"]), relations[other["_id"]])
            spans.span.add_link(link.context, link.attributes)

    def chat_spans(self, claim: Claim) -> Spans:
        return self._runs.get((claim.run_id, claim.token), NO_SPANS)

    def record_outcome(self, claim: Claim, outcome: Outcome, state: RunState) -> None:
        spans = self._runs.get((claim.run_id, claim.token))
        if spans is not None:
            spans.record_outcome(outcome, state)


@dataclass(frozen=True, slots=True)
class _RecordedRequest:
    _span: Span
    request: RunRequest

    @property
    def log_fields(self) -> Mapping[str, str]:
        return log_fields(self._span) if self._span.is_recording() else {}

    def end_accepted(self, accepted: Accepted) -> None:
        result = "created" if accepted.created else "merged" if accepted.merged else "duplicate"
        self._span.set_attributes({span_attributes.RUN_ID: accepted.run_id, span_attributes.ACCEPTED: result})
        self._span.end()

    def end_failed(self, error: BaseException) -> None:
        mark_failed(self._span, type(error).__name__)
        self._span.end()


def log_fields(span: Span) -> dict[str, str]:
    ids = _ids(span)
    return {"trace_id": f"{ids.trace_id:032x}", "span_id": f"{ids.span_id:016x}"}


def _ids(span: Span) -> SpanIds:
    context = span.get_span_context()
    return SpanIds(context.trace_id, context.span_id, bool(context.trace_flags.sampled))


def _parent_context(parent: SpanIds | None) -> Context:
    """Builds the context of a parent span in another process.

    It starts empty: a span that a library has made current is no parent here.
    """
    return Context() if parent is None else set_span_in_context(NonRecordingSpan(_remote_context(parent)), Context())


def _remote_context(ids: SpanIds) -> SpanContext:
    return SpanContext(ids.trace_id, ids.span_id, is_remote=True, trace_flags=TraceFlags(ids.sampled))


def _link(to: SpanIds, how: str) -> Link:
    attributes: dict[str, Any] = {span_attributes.LINK: how}
    return Link(_remote_context(to), attributes)
