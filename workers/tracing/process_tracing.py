"""Process tracing: the spans of one process's triggers and runs."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, TraceFlags, Tracer
from opentelemetry.trace.propagation import set_span_in_context

from workers.logs import about
from workers.store.repository import LinkedRuns
from workers.store.run import Accepted, Claim, RunRequest, RunState
from workers.tracing import names
from workers.tracing.ids import SpanIds, former_owner_of, from_traceparent, ids_of
from workers.tracing.run_spans import Content, RunSpans, mark_failed
from workers.tracing.tracing import Asked, current_call
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
        self._content = Content(redactor, wanted=with_content)
        self._choose_ids = choose_ids
        self._runs: dict[tuple[str, int], RunSpans] = {}
        self.close = close

    def asked(self, request: RunRequest) -> Asked:
        call = current_call()
        parent = from_traceparent(call.traceparent) if call is not None else None
        span = self._tracer.start_span(
            f"trigger {request.workflow}/{request.trigger.name}",
            context=_under(parent),
            kind=self._kind,
            attributes={
                names.WORKFLOW: request.workflow,
                names.APP_ID: request.app_id,
                names.TRIGGER_TYPE: request.trigger.type,
                names.TRIGGER_NAME: request.trigger.name,
            },
            start_time=None if call is None else call.began_ns,
        )
        return _Traced(span, replace(request, traceparent=_ids(span).as_traceparent()))

    @contextmanager
    def run(self, claim: Claim) -> Iterator[None]:
        span = self._run_span(claim)
        key = (claim.run_id, claim.token)
        if not span.is_recording():  # then nothing of the run is: the parent decides
            yield
            return
        self._runs[key] = spans = RunSpans(self._tracer, span, claim.document, self._content)
        try:
            with about(**log_fields(span)):
                yield
        finally:
            del self._runs[key]
            spans.close()

    def _run_span(self, claim: Claim) -> Span:
        run = claim.document
        former = former_owner_of(run)
        with self._choose_ids(ids_of(run, token=claim.token)):
            return self._tracer.start_span(
                f"invoke_workflow {run['workflow']}",
                context=_under(from_traceparent(run.get("traceparent"))),
                links=[] if former is None else [_link(former, "resumes")],
                attributes={
                    names.OPERATION: "invoke_workflow",
                    names.WORKFLOW_NAME: run["workflow"],
                    names.WORKFLOW: run["workflow"],
                    names.CONVERSATION: claim.run_id,
                    names.RUN_ID: claim.run_id,
                    names.APP_ID: run["app_id"],
                    names.TRIGGER_TYPE: run["trigger"]["type"],
                    names.TRIGGER_NAME: run["trigger"]["name"],
                    names.ATTEMPT: claim.attempt,
                    names.WORKER: claim.owner,
                },
            )

    async def link(self, claim: Claim, runs: LinkedRuns) -> None:
        spans, run = self._runs.get((claim.run_id, claim.token)), claim.document
        followed = {run.get("parent_run_id"): "follows", run.get("replay_of"): "replays"}
        followed.pop(None, None)
        if spans is None or not followed or run.get("history"):
            return
        for other in await runs.find_linked([run_id for run_id in followed if run_id is not None]):
            link = _link(ids_of(other, token=other["lease"]["token"]), followed[other["_id"]])
            spans.span.add_link(link.context, link.attributes)

    def chat(self, claim: Claim) -> Spans:
        return self._runs.get((claim.run_id, claim.token), NO_SPANS)

    def ended(self, claim: Claim, outcome: Outcome, state: RunState) -> None:
        spans = self._runs.get((claim.run_id, claim.token))
        if spans is not None:
            spans.ended(outcome, state)


@dataclass(frozen=True, slots=True)
class _Traced:
    _span: Span
    request: RunRequest

    @property
    def log_fields(self) -> Mapping[str, str]:
        return log_fields(self._span) if self._span.is_recording() else {}

    def accepted(self, accepted: Accepted) -> None:
        became = "created" if accepted.created else "merged" if accepted.merged else "duplicate"
        self._span.set_attributes({names.RUN_ID: accepted.run_id, names.ACCEPTED: became})
        self._span.end()

    def failed(self, error: BaseException) -> None:
        mark_failed(self._span, type(error).__name__)
        self._span.end()


def log_fields(span: Span) -> dict[str, str]:
    ids = _ids(span)
    return {"trace_id": f"{ids.trace_id:032x}", "span_id": f"{ids.span_id:016x}"}


def _ids(span: Span) -> SpanIds:
    context = span.get_span_context()
    return SpanIds(context.trace_id, context.span_id, bool(context.trace_flags.sampled))


def _under(parent: SpanIds | None) -> Context:
    """Of another process. A context of its own: what a library may have made current is nobody's parent here."""
    return Context() if parent is None else set_span_in_context(NonRecordingSpan(_remote(parent)), Context())


def _remote(ids: SpanIds) -> SpanContext:
    return SpanContext(ids.trace_id, ids.span_id, is_remote=True, trace_flags=TraceFlags(ids.sampled))


def _link(to: SpanIds, how: str) -> Link:
    attributes: dict[str, Any] = {names.LINK: how}
    return Link(_remote(to), attributes)
