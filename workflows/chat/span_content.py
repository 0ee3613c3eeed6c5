"""The content of a model call for its span, where somebody has asked for that: messages as the GenAI conventions write
them, a role and its parts."""

from collections.abc import Iterable, Mapping
from typing import Any

from ag2.events import BaseEvent, ModelRequest, ModelResponse, TextInput, ToolResultsEvent

from workflows.spans import Messages

MessagePart = Mapping[str, Any]


def request_messages(prompt: Iterable[str], messages: Iterable[BaseEvent]) -> Messages:
    system = [_text_part(part) for part in prompt if part.strip()]
    asked = [message for event in messages for message in _event_messages(event)]
    return [{"role": "system", "parts": system}, *asked] if system else asked


def response_messages(response: ModelResponse | None) -> Messages:
    return [] if response is None else list(_event_messages(response))


def _event_messages(event: BaseEvent) -> Iterable[Mapping[str, Any]]:
    if isinstance(event, ModelRequest):
        yield {"role": "user", "parts": [_text_part(part.content) for part in event.parts if isinstance(part, TextInput)]}
    elif isinstance(event, ModelResponse):
        called = [
            {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
            for call in event.tool_calls.calls
        ]
        yield {"role": "assistant", "parts": [*([_text_part(event.content)] if event.content else []), *called]}
    elif isinstance(event, ToolResultsEvent):
        for result in event.results:
            text = "\n".join(part.content for part in result.result.parts if isinstance(part, TextInput))
            answer = {"type": "tool_call_response", "id": result.parent_id, "response": text}
            yield {"role": "tool", "parts": [answer]}


def _text_part(content: str) -> MessagePart:
    return {"type": "text", "content": content}
