"""Spans: what a chat tells of its turns, model calls and tool calls while they last. Traces listen, or nobody does."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from accounting.budgets.reservation_types import PlannedCall
from accounting.usage import ModelCall
from workflows.outcome import Outcome

Messages = Sequence[Mapping[str, Any]]
"""As the GenAI conventions write them: a role and its parts."""


class TurnSpan(Protocol):
    """Of one turn, while it lasts. What is raised out of it says enough."""

    def record_commit(self, handoff: str | None) -> None: ...

    def record_chat_end(self, outcome: Outcome) -> None:
        """Instead of being committed."""


class CallSpan(Protocol):
    """Of one model call, from when it is made."""

    def end(self, call: ModelCall, *, model: str | None, reply: Callable[[], Messages]) -> None:
        """`model` is who answered, by its own name; `said` is asked for only where content is wanted."""


class ToolSpan(Protocol):
    """Of one tool call, while it lasts."""

    def record_result(self, text: str) -> None: ...

    def record_error(self, error: str) -> None:
        """`error` is a type, never a text."""


class Spans(Protocol):
    """Of one run under one owner."""

    def turn(self, agent: str, number: int) -> AbstractContextManager[TurnSpan]: ...

    def model_call(self, call: PlannedCall, messages: Callable[[], Messages]) -> CallSpan: ...

    def tool_call(self, tool: str, arguments: str) -> AbstractContextManager[ToolSpan]: ...


class _NullSpans:
    """One for all: it holds nothing."""

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
