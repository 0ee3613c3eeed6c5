"""The transcript: turns as plain JSON.

A turn holds no AG2 object, so any worker of any later version can resume from it.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ag2.events import (
    BaseEvent,
    ModelResponse,
    TextInput,
    ToolErrorEvent,
    ToolResultEvent,
    ToolResultsEvent,
)

from workflows.chat.package_code.incidents import Incident
from workflows.context.state.state_transitions import ObservedToolResult
from workflows.context.values.storable_values import storable_text
from workflows.context.values.type_coercion import find_unstorable

FAILED_KEY = "unattended.failed"  # in the metadata of a tool's result, which no model sees
NO_EFFECTS_KEY = "unattended.no_effects"


@dataclass(frozen=True, slots=True)
class Turn:
    """One agent's turn.

    `events` are its model answers and tool results in order, `errors` the failures of its tools."""

    agent: str
    text: str
    events: Sequence[Mapping[str, Any]] = ()
    context_changes: Mapping[str, Any] = field(default_factory=dict)
    handoff: str | None = None
    tokens: Mapping[str, int] = field(default_factory=dict)
    duration_s: float = 0.0
    errors: Sequence[Incident] = ()

    def as_document(self) -> dict[str, Any]:
        return {
            "agent": self.agent,
            "text": self.text,
            "events": [dict(event) for event in self.events],
            "tool_calls": [call for event in self.events for call in event.get("tool_calls", ())],
            "context_changes": dict(self.context_changes),
            "handoff": self.handoff,
            "tokens": dict(self.tokens),
            "duration_s": self.duration_s,
            "errors": [error.as_document() for error in self.errors],
        }

    @staticmethod
    def from_document(document: Mapping[str, Any]) -> "Turn":
        return Turn(
            agent=document["agent"],
            text=document["text"],
            events=document["events"],
            context_changes=document["context_changes"],
            handoff=document["handoff"],
            tokens=document["tokens"],
            duration_s=document["duration_s"],
            errors=tuple(Incident.from_document(incident) for incident in document.get("errors", ())),
        )


def record_events(events: Iterable[BaseEvent]) -> list[dict[str, Any]]:
    """Converts the events that a turn added to its stream into JSON."""
    lines: list[dict[str, Any]] = []
    for event in events:
        if isinstance(event, ModelResponse):
            if event.content is None and not event.tool_calls.calls:
                continue  # a turn that ended with a transfer
            calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in event.tool_calls.calls]
            lines.append({"text": None if event.content is None else storable_text(event.content), "tool_calls": calls})
        elif isinstance(event, ToolResultsEvent):
            lines.append({"tool_results": [_result_line(result) for result in event.results]})
    return lines


def _result_line(event: ToolResultEvent) -> dict[str, Any]:
    line: dict[str, Any] = {"id": event.parent_id, "name": event.name or "", "text": _result_text(event)}
    if NO_EFFECTS_KEY in event.result.metadata:
        line["effects"] = "none"
    return (
        {**line, "failed": True} if isinstance(event, ToolErrorEvent) or FAILED_KEY in event.result.metadata else line
    )


def tool_results(events: Iterable[Mapping[str, Any]]) -> tuple[ObservedToolResult, ...]:
    """Returns the tool results of a turn in order, in the form that triggers use."""
    return tuple(
        ObservedToolResult(result["name"], _parse_value(result["text"]), ok=not result.get("failed"))
        for line in events
        for result in line.get("tool_results", ())
    )


def called_tools(events: Iterable[Mapping[str, Any]], known_names: Collection[str]) -> tuple[str, ...]:
    """Returns the called tools in order, without unknown names that models invent."""
    names = (call["name"] for line in events for call in line.get("tool_calls", ()))
    return tuple(name for name in names if name in known_names)


def _parse_value(text: str) -> Any:
    """Parses JSON that a run document can hold; other text stays text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if find_unstorable(value) else value


def _result_text(event: ToolResultEvent) -> str:
    return storable_text(
        "\n".join(part.content if isinstance(part, TextInput) else str(part) for part in event.result.parts)
    )
