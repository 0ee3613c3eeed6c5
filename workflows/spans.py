"""Spans: what a chat tells of its turns, model calls and tool calls while they last. Traces listen, or nobody does."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from accounting.budgets.asking import PlannedCall
from accounting.usage import ModelCall
from workflows.outcome import Outcome

Messages = Sequence[Mapping[str, Any]]
"""As the GenAI conventions write them: a role and its parts."""


class TurnSpan(Protocol):
    """Of one turn, while it lasts. What is raised out of it says enough."""

    def committed(self, handoff: str | None) -> None: ...

    def ended_chat(self, outcome: Outcome) -> None:
        """Instead of being committed."""


class CallSpan(Protocol):
    """Of one model call, from when it is made."""

    def end(self, call: ModelCall, *, model: str | None, said: Callable[[], Messages]) -> None:
        """`model` is who answered, by its own name; `said` is asked for only where content is wanted."""


class ToolSpan(Protocol):
    """Of one tool call, while it lasts."""

    def answered(self, text: str) -> None: ...

    def failed(self, error: str) -> None:
        """`error` is a type, never a text."""


class Spans(Protocol):
    """Of one run under one owner."""

    def turn(self, agent: str, number: int) -> AbstractContextManager[TurnSpan]: ...

    def model_call(self, call: PlannedCall, asked: Callable[[], Messages]) -> CallSpan: ...

    def tool_call(self, tool: str, arguments: str) -> AbstractContextManager[ToolSpan]: ...


class _Unheard:
    """One for all: it holds nothing."""

    def turn(self, agent: str, number: int) -> AbstractContextManager[TurnSpan]:  # noqa: ARG002 -- the protocol's
        return _TURN

    def model_call(self, call: PlannedCall, asked: Callable[[], Messages]) -> CallSpan:  # noqa: ARG002 -- as above
        return self

    def tool_call(self, tool: str, arguments: str) -> AbstractContextManager[ToolSpan]:  # noqa: ARG002 -- as above
        return _TOOL

    def committed(self, handoff: str | None) -> None: ...

    def ended_chat(self, outcome: Outcome) -> None: ...

    def end(self, call: ModelCall, *, model: str | None, said: Callable[[], Messages]) -> None: ...

    def answered(self, text: str) -> None: ...

    def failed(self, error: str) -> None: ...


NO_SPANS = _Unheard()
_TURN: AbstractContextManager[TurnSpan] = nullcontext(NO_SPANS)
_TOOL: AbstractContextManager[ToolSpan] = nullcontext(NO_SPANS)
