"""Tracing: the interface that roles, triggers and runs call.

Without an endpoint its methods do nothing, and OpenTelemetry is not loaded.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from workers.settings import Settings
from workers.store.run import Accepted, Claim, RunRequest, RunState
from workers.store.run_repository import LinkedRuns
from workers.tracing.trace_settings import traces_endpoint
from workflows.context.redaction import Redactor
from workflows.outcome import Outcome
from workflows.spans import NO_SPANS, Spans

log = logging.getLogger(__name__)


class TracedRequest(Protocol):
    """The request of a run, and its span.

    `request` carries the trace on; the result ends the span.
    """

    @property
    def request(self) -> RunRequest: ...

    @property
    def log_fields(self) -> Mapping[str, str]: ...

    def end_accepted(self, accepted: Accepted) -> None: ...

    def end_failed(self, error: BaseException) -> None: ...


class Tracing(Protocol):
    """The tracing of one process."""

    @property
    def is_on(self) -> bool: ...

    def start_trigger_span(self, request: RunRequest) -> TracedRequest: ...

    def run_span(self, claim: Claim) -> AbstractContextManager[None]:
        """Spans all that one owner does to a run."""

    async def link_related_runs(self, claim: Claim, runs: LinkedRuns) -> None:
        """Links the runs that this one follows or replays."""

    def chat_spans(self, claim: Claim) -> Spans: ...

    def record_outcome(self, claim: Claim, outcome: Outcome, state: RunState) -> None: ...

    def close(self) -> None:
        """Sends the remaining spans, within a second."""


@dataclass(frozen=True, slots=True)
class _UntracedRequest:
    request: RunRequest

    @property
    def log_fields(self) -> Mapping[str, str]:
        return {}

    def end_accepted(self, accepted: Accepted) -> None: ...

    def end_failed(self, error: BaseException) -> None: ...


class NoTracing:
    is_on = False

    def start_trigger_span(self, request: RunRequest) -> TracedRequest:
        return _UntracedRequest(request)

    def run_span(self, claim: Claim) -> AbstractContextManager[None]:  # noqa: ARG002 -- the protocol's
        return nullcontext()

    async def link_related_runs(self, claim: Claim, runs: LinkedRuns) -> None: ...

    def chat_spans(self, claim: Claim) -> Spans:  # noqa: ARG002 -- the protocol's
        return NO_SPANS

    def record_outcome(self, claim: Claim, outcome: Outcome, state: RunState) -> None: ...

    def close(self) -> None: ...


NO_TRACING = NoTracing()


def open_tracing(settings: Settings, *, role: str, redactor: Redactor | None = None) -> Tracing:
    """Opens the tracing of a process, after a fork: spans are sent from a thread."""
    endpoint = traces_endpoint(settings)
    if endpoint is None:
        return NO_TRACING
    from workers.tracing.otlp_export import open_otlp_tracing

    try:
        return open_otlp_tracing(settings, endpoint, role=role, redactor=redactor or Redactor())
    except (ValueError, OSError) as error:  # an invalid variable that the SDK reads itself
        log.warning("traces_off", extra={"error": str(error)[:200]})
        return NO_TRACING


@dataclass(frozen=True, slots=True)
class IncomingRequest:
    """An HTTP request: the trace of its sender, and when it arrived."""

    traceparent: str | None
    began_ns: int


_incoming_request: ContextVar[IncomingRequest | None] = ContextVar("unattended_call", default=None)


@contextmanager
def bind_request(request: IncomingRequest) -> Iterator[None]:
    """Makes runs that are requested inside belong to this HTTP request."""
    token = _incoming_request.set(request)
    try:
        yield
    finally:
        _incoming_request.reset(token)


def current_request() -> IncomingRequest | None:
    return _incoming_request.get()
