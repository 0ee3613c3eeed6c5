"""The transcript: plain JSON, and the same history after a round trip."""

import json
from typing import Any

import pytest
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
from hypothesis import given
from hypothesis import strategies as st

from workflows.chat.history.messages import CONTINUE_MESSAGE, build_messages, to_history
from workflows.chat.history.transcript import Turn, record_events
from workflows.chat.package_code.incidents import Incident
from workflows.context.values.storable_values import storable_text

CALL = ToolCallEvent(id="c1", name="read", arguments='{"region": "eu"}')
EVENTS: list[BaseEvent] = [
    ModelRequest([TextInput("Begin.")]),
    ModelResponse(message=ModelMessage("let me look"), tool_calls=ToolCallsEvent([CALL])),
    ToolResultsEvent([ToolResultEvent(parent_id="c1", name="read", result=ToolResult("128 orders"))]),
    ModelMessage("not a line of its own"),
    ModelResponse(message=ModelMessage("NEXT")),
]


def seen_by(agent: str, opening: str, turns: list[Turn]) -> tuple[list[BaseEvent], str]:
    return to_history(build_messages(agent, opening, turns))


def plain(events: list[BaseEvent]) -> list[Any]:
    lines: list[Any] = []
    for event in events:
        if isinstance(event, ModelRequest):
            lines.append([part.content for part in event.parts if isinstance(part, TextInput)])
        elif isinstance(event, ModelResponse):
            calls = [(call.id, call.name, call.arguments) for call in event.tool_calls.calls]
            lines.append((event.content, calls))
        elif isinstance(event, ToolResultsEvent):
            lines.append(record_events([event])[0]["tool_results"])
    return lines


def test_a_turn_is_recorded_without_requests_and_framework_events() -> None:
    assert record_events(EVENTS) == [
        {"text": "let me look", "tool_calls": [{"id": "c1", "name": "read", "arguments": '{"region": "eu"}'}]},
        {"tool_results": [{"id": "c1", "name": "read", "text": "128 orders"}]},
        {"text": "NEXT", "tool_calls": []},
    ]


def test_an_answer_of_tool_calls_only_has_no_text() -> None:
    [line] = record_events([ModelResponse(tool_calls=ToolCallsEvent([CALL]))])

    events, _ = seen_by("A", "Begin.", [Turn("A", "", [line])])

    assert line["text"] is None
    assert plain(events)[1] == (None, [("c1", "read", '{"region": "eu"}')])


def test_the_first_turn_is_asked_with_the_opening() -> None:
    assert seen_by("A", "Begin.", []) == ([], "Begin.")


@pytest.mark.design("D5-18")
def test_an_agents_own_turn_comes_back_as_its_own_after_a_round_trip() -> None:
    turn = Turn(
        "A",
        "NEXT",
        record_events(EVENTS),
        {"n": 1},
        "B",
        {"input": 3, "output": 1},
        0.5,
        (Incident("tool t", "E", "m", "tb"),),
    )
    stored = Turn.from_document({**json.loads(json.dumps(turn.as_document())), "_id": "run_1:1", "token": 3})

    events, question = seen_by("A", "Begin.", [stored])

    assert stored == turn
    assert plain(events) == [["Begin."], *plain(EVENTS[1:])]
    assert question == CONTINUE_MESSAGE


@pytest.mark.design("D5-18", "D5-30")
def test_turns_of_others_are_named_messages_and_the_last_is_the_question() -> None:
    turns = [Turn("A", "one", [{"text": "one", "tool_calls": []}]), Turn("B", "two"), Turn("C", "three")]

    events, question = seen_by("A", "Begin.", turns)

    assert plain(events) == [["Begin."], ("one", []), ["[B]: two"]]
    assert question == "[C]: three"


def test_a_document_names_its_tool_calls_for_readers() -> None:
    document = Turn("A", "NEXT", record_events(EVENTS)).as_document()
    assert document["tool_calls"] == [{"id": "c1", "name": "read", "arguments": '{"region": "eu"}'}]


@given(st.text(st.characters(codec=None)))
def test_what_is_storable_can_be_encoded_and_good_text_stays(text: str) -> None:
    assert storable_text(text).encode().decode() == storable_text(text)
    assert len(storable_text(text)) == len(text)
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert storable_text(text) == text
