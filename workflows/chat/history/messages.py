"""Messages: an agent's view of the transcript, as dictionaries and AG2 events.

An agent sees the texts of others as messages with their names, and its own turns as its own, tool calls included. Hooks
may change the dictionaries, which are shaped as in chat completions: `role`, `content`, `name`, `tool_calls`,
`tool_call_id`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ag2.events import (
    BaseEvent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextInput,
    ToolCallEvent,
    ToolCallsEvent,
    ToolResult,
    ToolResultEvent,
    ToolResultsEvent,
)

from workflows.chat.history.transcript import Turn
from workflows.package.normal_form.package_model import USER

CONTINUE_MESSAGE = "Go on."

Message = dict[str, Any]


def build_messages(agent: str, opening_message: str, turns: Iterable[Turn]) -> list[Message]:
    messages: list[Message] = [{"role": "user", "name": USER, "content": opening_message}]
    for turn in turns:
        if turn.agent == agent:
            messages.extend(_own_turn_messages(turn))
        elif turn.text.strip():  # a turn that only handed over has no text
            messages.append({"role": "user", "name": turn.agent, "content": turn.text})
    return messages


def _own_turn_messages(turn: Turn) -> Iterable[Message]:
    for line in turn.events:
        if line.get("automatic"):
            # Its model never asked for these calls and does not know the tools; some providers refuse calls of unknown
            # ones.
            yield from (
                {"role": "user", "name": result["name"], "content": result["text"]} for result in _tool_results(line)
            )
        elif "tool_results" in line:
            for result in _tool_results(line):
                yield {"role": "tool", "tool_call_id": result["id"], "name": result["name"], "content": result["text"]}
        else:
            calls = [
                {"id": call["id"], "type": "function", "function": {name: call[name] for name in ("name", "arguments")}}
                for call in line["tool_calls"]
            ]
            message = {"role": "assistant", "name": turn.agent, "content": line["text"]}
            yield {**message, "tool_calls": calls} if calls else message


def _tool_results(line: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return line.get("tool_results") or ()


def to_history(messages: Sequence[Mapping[str, Any]]) -> tuple[list[BaseEvent], str]:
    """Returns the events before this turn, and its question: the last other message."""
    has_question = bool(messages) and messages[-1]["role"] not in ("assistant", "tool")
    question = _message_text(messages[-1]) if has_question else CONTINUE_MESSAGE
    return list(_to_events(messages[:-1] if has_question else messages)), question


def _to_events(messages: Sequence[Mapping[str, Any]]) -> Iterable[BaseEvent]:
    results: list[ToolResultEvent] = []
    for message in messages:
        if message["role"] == "tool":
            results.append(_to_result_event(message))
            continue
        if results:
            yield ToolResultsEvent(results)
            results = []
        if message["role"] == "assistant":
            yield _to_response(message)
        else:
            yield ModelRequest([TextInput(_message_text(message))])
    if results:
        yield ToolResultsEvent(results)


def _to_result_event(message: Mapping[str, Any]) -> ToolResultEvent:
    return ToolResultEvent(
        parent_id=message["tool_call_id"], name=message.get("name") or "", result=ToolResult(message["content"])
    )


def _to_response(message: Mapping[str, Any]) -> ModelResponse:
    calls = [
        ToolCallEvent(id=call["id"], name=call["function"]["name"], arguments=call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    ]
    content = message.get("content")
    return ModelResponse(
        message=None if content is None else ModelMessage(str(content)), tool_calls=ToolCallsEvent(calls)
    )


def _message_text(message: Mapping[str, Any]) -> str:
    name, content = message.get("name"), str(message.get("content") or "")
    return content if name in (None, USER) else f"[{name}]: {content}"
