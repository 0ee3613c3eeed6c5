"""Spans: how a chat reports turns, model calls and tool calls to a tracer."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from accounting.budgets.reservation_types import PlannedCall
from accounting.usage import ModelCall
from workflows.outcome import Outcome

Messages = Sequence[Mapping[str, Any]]
"""Messages in the form of the GenAI conventions: a role and its parts."""


class TurnSpan(Protocol):
    """The open span of one turn. An exception that leaves it is recorded as its error."""

    def record_commit(self, handoff: str | None) -> None: ...

    def record_chat_end(self, outcome: Outcome) -> None:
        """Records that the chat ended in this turn instead of a commit."""


class CallSpan(Protocol):
    """The open span of one model call."""

    def end(self, call: ModelCall, *, model: str | None, reply: Callable[[], Messages]) -> None:
        """Ends the span.

        `model` is the name that the provider returned; `reply` is called only to record content.
        """


class ToolSpan(Protocol):
    """The open span of one tool call."""

    def record_result(self, text: str) -> None: ...

    def record_error(self, error: str) -> None:
        """Records a failed call. `error` is the name of a type, never a text."""


class Spans(Protocol):
    """Opens the spans of one run under one owner."""

    def turn(self, agent: str, number: int) -> AbstractContextManager[TurnSpan]: ...

    def model_call(self, call: PlannedCall, messages: Callable[[], Messages]) -> CallSpan: ...

    def tool_call(self, tool: str, arguments: str) -> AbstractContextManager[ToolSpan]: ...


class _NullSpans:
    """Records nothing. One stateless object stands for all spans."""

    def turn(self, agent: str, number: int) -> AbstractContextManager[TurnSpan]:  # noqa: ARG002 -- the protocol's
        return _NULL_TURN

    def model_call(self, call: PlannedCall, messages: Callable[[], Messages]) -> CallSpan:  # noqa: ARG002 -- as above
        return self

    def tool_call(self, tool: str, arguments: str) -> AbstractContextManager[ToolSpan]:  # noqa: ARG002 -- as above
        return _NULL_TOOL

    def record_commit(self, handoff: str | None) -> None: ...

    def record_chat_end(self, outcome: Outcome) -> None: ...

    def end(self, call: ModelCall, *, model: str | None, reply: Callable[[], Messages]) -> None: ...

    def record_result(self, text: str) -> None: ...

    def record_error(self, error: str) -> None: ...


NO_SPANS = _NullSpans()
_NULL_TURN: AbstractContextManager[TurnSpan] = nullcontext(NO_SPANS)
_NULL_TOOL: AbstractContextManager[ToolSpan] = nullcontext(NO_SPANS)
