"""Run spans: the spans of one run under one owner.

They are those of the run, its turns, model calls and tool calls. Texts of models, tools and errors are left out, unless
content capture is on. Then hidden values are redacted and texts are cut.
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation import set_span_in_context

from accounting.budgets.reservation_types import PlannedCall
from accounting.usage import ModelCall
from workers.logs import log_context
from workers.store.run import RunState
from workers.tracing import span_attributes
from workflows.context.redaction import Redactor
from workflows.context.values.storable_values import storable_text
from workflows.outcome import Outcome, OutcomeKind
from workflows.spans import CallSpan, Messages, ToolSpan, TurnSpan

MAX_CONTENT_CHARACTERS = 8_000
_NO_FAULT = frozenset({OutcomeKind.NEEDS_HUMAN, OutcomeKind.HANDED_BACK})
_FAILED = frozenset({RunState.FAILED, RunState.PARKED})


@dataclass(frozen=True, slots=True)
class Content:
    """Redacts and cuts what comes from a package, a model or a server."""

    redactor: Redactor
    is_wanted: bool

    def name(self, text: str) -> str:
        """Redacts the name of a type or model, which a package or a server chose."""
        return storable_text(self.redactor.redact_text(text))[:200]

    def attribute(self, name: str, read_content: Callable[[], Any]) -> Mapping[str, str]:
        if not self.is_wanted:
            return {}
        # Redacted before it is serialized and cut: half a value, or one with escaped quotes, would not be found.
        shown = self.redactor.redact_data(read_content())
        text = storable_text(shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False))
        return {
            name: text
            if len(text) <= MAX_CONTENT_CHARACTERS
            else f"{text[:MAX_CONTENT_CHARACTERS]}… ({len(text)} characters)"
        }


class RunSpans:
    def __init__(self, tracer: Tracer, span: Span, run: Mapping[str, Any], content: Content) -> None:
        self.span = span
        self._tracer = tracer
        self._content = content
        self._of_run = {
            span_attributes.RUN_ID: run["_id"],
            span_attributes.WORKFLOW: run["workflow"],
            span_attributes.APP_ID: run["app_id"],
        }
        self._of_run[span_attributes.CONVERSATION] = run["_id"]
        self._context = set_span_in_context(span, Context())
        self._has_ended = False

    @contextmanager
    def turn(self, agent: str, number: int) -> Iterator[TurnSpan]:
        span = self._tracer.start_span(
            f"invoke_agent {agent}",
            context=self._context,
            attributes={
                **self._of_run,
                span_attributes.OPERATION: "invoke_agent",
                span_attributes.AGENT_NAME: agent,
                span_attributes.TURN: number,
            },
        )
        outer, self._context = self._context, set_span_in_context(span, Context())
        try:
            with log_context(span_id=span_id(span)):
                yield _TurnSpan(span, self._content)
        except asyncio.CancelledError:
            span.set_attribute(span_attributes.CUT_OFF, True)
            raise
        except BaseException as error:
            mark_failed(span, self._content.name(type(error).__name__))
            raise
        finally:
            self._context = outer
            span.end()

    def model_call(self, call: PlannedCall, messages: Callable[[], Messages]) -> CallSpan:
        provider = span_attributes.PROVIDERS.get(call.provider, call.provider)
        span = self._tracer.start_span(
            f"chat {call.model}",
            context=self._context,
            kind=SpanKind.CLIENT,
            attributes={
                **self._of_run,
                span_attributes.OPERATION: "chat",
                span_attributes.PROVIDER: provider,
                span_attributes.REQUEST_MODEL: call.model,
                span_attributes.AGENT_NAME: call.agent,
                **self._content.attribute(span_attributes.INPUT_MESSAGES, messages),
            },
        )
        return _ModelCallSpan(span, self._content)

    @contextmanager
    def tool_call(self, tool: str, arguments: str) -> Iterator[ToolSpan]:
        """Makes the span current for the tool.

        The tool may pass the trace on to services that it calls.
        """
        span = self._tracer.start_span(
            f"execute_tool {tool}",
            context=self._context,
            attributes={
                **self._of_run,
                span_attributes.OPERATION: "execute_tool",
                span_attributes.TOOL_NAME: tool,
                span_attributes.TOOL_TYPE: "function",
                **self._content.attribute(span_attributes.TOOL_ARGUMENTS, lambda: arguments),
            },
        )
        token = attach(set_span_in_context(span, Context()))
        try:
            with log_context(span_id=span_id(span)):
                yield _ToolCallSpan(span, self._content)
        finally:
            detach(token)
            span.end()

    def record_outcome(self, outcome: Outcome, state: RunState) -> None:
        self._has_ended = True
        self.span.set_attributes({span_attributes.OUTCOME: outcome.kind.value, span_attributes.STATE: state.value})
        is_retried = state is RunState.QUEUED and outcome.kind is not OutcomeKind.HANDED_BACK
        if state in _FAILED or is_retried:
            mark_failed(self.span, self._content.name(_error_of(outcome)))

    def close(self) -> None:
        if not self._has_ended:  # the worker stops, or another one owns the run now
            self.span.set_attribute(span_attributes.CUT_OFF, True)
        self.span.end()


@dataclass(frozen=True, slots=True)
class _TurnSpan:
    _span: Span
    _content: Content

    def record_commit(self, handoff: str | None) -> None:
        if handoff is not None:
            self._span.set_attribute(span_attributes.HANDOFF, handoff)

    def record_chat_end(self, outcome: Outcome) -> None:
        self._span.set_attribute(span_attributes.OUTCOME, outcome.kind.value)
        if outcome.kind not in _NO_FAULT:
            mark_failed(self._span, self._content.name(_error_of(outcome)))


@dataclass(frozen=True, slots=True)
class _ModelCallSpan:
    _span: Span
    _content: Content

    def end(self, call: ModelCall, *, model: str | None, reply: Callable[[], Messages]) -> None:
        tokens = call.tokens
        self._span.set_attributes(
            {
                span_attributes.USAGE: call.status,
                span_attributes.INPUT_TOKENS: tokens.input,
                span_attributes.OUTPUT_TOKENS: tokens.output,
                span_attributes.CACHE_READ_TOKENS: tokens.cached_input,
                span_attributes.CACHE_WRITE_TOKENS: tokens.cache_write,
                span_attributes.REASONING_TOKENS: tokens.reasoning,
                **({} if model is None else {span_attributes.RESPONSE_MODEL: self._content.name(model)}),
                **self._content.attribute(span_attributes.OUTPUT_MESSAGES, reply),
            }
        )
        if call.error is not None:
            mark_failed(self._span, self._content.name(call.error))
        self._span.end()


@dataclass(frozen=True, slots=True)
class _ToolCallSpan:
    _span: Span
    _content: Content

    def record_result(self, text: str) -> None:
        self._span.set_attributes(self._content.attribute(span_attributes.TOOL_RESULT, lambda: text))

    def record_error(self, error: str) -> None:
        mark_failed(self._span, self._content.name(error))


def _error_of(outcome: Outcome) -> str:
    return outcome.error.type if outcome.error is not None else outcome.kind.value


def mark_failed(span: Span, error: str) -> None:
    """Marks a span as failed, by the type of the error: its text may contain anything."""
    span.set_attribute(span_attributes.ERROR_TYPE, error)
    span.set_status(StatusCode.ERROR)


def span_id(span: Span) -> str:
    return f"{span.get_span_context().span_id:016x}"
