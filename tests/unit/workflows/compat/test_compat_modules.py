"""Served modules in use: loggers, copies of context values and UI tools."""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from pydantic import BaseModel

from tests.unit.workflows.chats import Chat, ChatRecorder, build_chat
from tests.unit.workflows.packages import load, write_tool
from workflows.chat.questions.call_questions import UIToolError
from workflows.compat.frozen import detach
from workflows.compat.logging_config import get_workflow_logger, get_workflow_session_logger, log_operation
from workflows.compat.tools_logs import get_tool_logger, log_tool_event
from workflows.compat.ui_tools import emit_ui_surface
from workflows.context.call_context import CallContext
from workflows.outcome import Outcome, OutcomeKind
from workflows.tools import ContextVariables, get_context_variable, set_context_variable

ONE_CALL = {"answers": {"A": [{"tool_calls": [{"name": "t"}]}, {"text": "went on"}]}}


async def chat(folder: Path, source: str, **tool: Any) -> tuple[Outcome, ChatRecorder, Chat]:
    write_tool(folder, "t.py", source)
    package = load(folder, tools=[{"agent": "A", "file": "t.py", "function": "t", **tool}])
    assert not [finding for finding in package.findings if finding.is_blocking or finding.level == "error"]
    whole = Chat(build_chat(package, ONE_CALL, folder))
    outcome, kept = await whole.run()
    return outcome, kept, whole


def result(recorder: ChatRecorder) -> str:
    [text] = [result["text"] for event in recorder.turn(1).events for result in event.get("tool_results", ())]
    return str(text)


ASKING = """
from logs.logging_config import get_workflow_logger
from mozaiksai.core.workflow.ui_tools import UIToolError, emit_ui_surface, use_ui_tool
log = get_workflow_logger(workflow_name="Small")
async def t():
    shown = await emit_ui_surface("Card", {"n": 1}, chat_id="c", workflow_name="Small", display="artifact")
    log.info("asks", shown=shown)
    return dict(await use_ui_tool("Approve", {"card": shown}, chat_id="c", workflow_name="Small"), shown=shown)
"""


@pytest.mark.design("D1-52")
async def test_a_tool_of_the_other_runtime_asks_and_gets_its_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    outcome, kept, whole = await chat(tmp_path, ASKING)
    assert outcome.kind is OutcomeKind.NEEDS_HUMAN
    [question] = whole.questions()
    whole.answers[question.id] = {"question": question.as_document(), "responses": {"Approve": {"verdict": "yes"}}}
    outcome, kept = await whole.run(kept)

    assert outcome.kind is OutcomeKind.COMPLETED  # the surface has the same id, so it is the same question
    answer = json.loads(result(kept))
    assert answer["verdict"] == "yes"
    assert answer["shown"].startswith("Card_")
    lines = [
        (record.getMessage(), getattr(record, "shown", None), getattr(record, "tool", None))
        for record in caplog.records
    ]
    assert ("ui_surface_not_shown", None, "Card") in lines
    assert ("asks", answer["shown"], None) in lines


async def test_a_surface_is_shown_by_other_calls_under_other_ids(tmp_path: Path) -> None:
    source = (
        "from core.workflow.ui_tools import emit_ui_surface\n"
        "async def t(): return [await emit_ui_surface('Card', {'n': n, 2: {n}}) for n in (1, 1, 2)]\n"
    )

    _, kept, _ = await chat(tmp_path, source)

    same, again, other = json.loads(result(kept))
    assert same == again != other


async def test_two_calls_of_one_reply_show_surfaces_of_their_own(tmp_path: Path) -> None:
    source = (
        "from core.workflow.ui_tools import emit_ui_surface\nasync def t(): return await emit_ui_surface('Card', {})\n"
    )
    write_tool(tmp_path, "t.py", source)
    package = load(tmp_path, tools=[{"agent": "A", "file": "t.py", "function": "t"}])
    twice = {"answers": {"A": [{"tool_calls": [{"name": "t"}] * 2}, {"text": "went on"}]}}

    _, kept = await Chat(build_chat(package, twice, tmp_path)).run()

    shown = [result["text"] for event in kept.turn(1).events for result in event.get("tool_results", ())]
    assert len(set(shown)) == len(shown) == 2


async def test_a_surface_needs_a_run_and_a_name(tmp_path: Path) -> None:
    with pytest.raises(UIToolError, match="emit_ui_surface works in a run only"):
        await emit_ui_surface("Card", {})
    source = (
        "from core.workflow.ui_tools import UIToolError, emit_ui_surface\n"
        "async def t():\n    try: await emit_ui_surface(' ', {})\n    except UIToolError as error: return str(error)\n"
    )
    _, kept, _ = await chat(tmp_path, source)
    assert result(kept) == "tool_id: give a name, such as 'StatusCard'"


@pytest.mark.design("D1-63")
async def test_the_other_runtimes_class_of_the_context_is_given_the_context(tmp_path: Path) -> None:
    source = (
        "from autogen import ContextVariables\nfrom workflows.tools import get_context_variable, set_context_variable\n"
        "def t(ctx: ContextVariables):\n    set_context_variable(ctx, 'seen', get_context_variable(ctx, 'none', 7))\n"
    )

    _, kept, _ = await chat(tmp_path, source)

    assert kept.context(1)["seen"] == 7


@dataclass
class Point:
    x: int


class Model(BaseModel):
    y: tuple[int, ...]


DETACHED: list[tuple[Any, Any]] = [
    (None, None),
    (b"x", b"x"),
    ({"a": [1, (2, 3)]}, {"a": [1, [2, 3]]}),
    (MappingProxyType({"a": frozenset({2, 1})}), {"a": [1, 2]}),
    ([Point(1), Model(y=(1,))], [{"x": 1}, {"y": [1]}]),
    (int, int),
    (ContextVariables({"a": {"b": 1}}), {"a": {"b": 1}}),
]


@pytest.mark.parametrize(("value", "plain"), DETACHED)
def test_a_detached_value_is_plain(value: Any, plain: Any) -> None:
    assert detach(value) == plain


def test_a_detached_value_shares_nothing() -> None:
    inner = {"b": [1]}
    copied = detach({"one": inner, "two": inner})

    copied["one"]["b"].append(2)

    assert inner == {"b": [1]}
    assert copied["two"] == {"b": [1]}


def test_what_cannot_be_detached_is_an_error() -> None:
    round_trip: list[Any] = []
    round_trip.append(round_trip)
    with pytest.raises(ValueError, match="recursive cycle"):
        detach(round_trip)
    with pytest.raises(TypeError, match="detach: Logger is not plain data"):
        detach({"log": logging.getLogger("x")})


def lines(caplog: pytest.LogCaptureFixture, *names: str) -> list[tuple[Any, ...]]:
    return [
        (record.levelname, record.getMessage(), *(getattr(record, name, None) for name in names))
        for record in caplog.records
    ]


def test_workflow_loggers_take_fields_as_keywords(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    log = get_workflow_logger("W", chat_id="c", step=1).with_context(more=2)

    log.info("%s of %d", "one", 2, name="kept out", api_key="k1", extra={"order": 7})
    log.warning("careful", exc_info=False)
    get_workflow_session_logger("W").error("late")
    try:
        raise KeyError("x")
    except KeyError:
        log.exception("broken")

    assert lines(caplog, "workflow_name", "chat_id", "more", "order", "api_key") == [
        ("INFO", "one of 2", "W", "c", 2, 7, "***"),
        ("WARNING", "careful", "W", "c", 2, None, None),
        ("ERROR", "late", "W", None, None, None, None),
        ("ERROR", "broken", "W", "c", 2, None, None),
    ]
    assert caplog.records[-1].exc_info is not None
    assert {record.name for record in caplog.records} == {"unattended_packages"}


def test_tool_loggers_name_their_tool(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    log = get_tool_logger(tool_name="mail", chat_id="c", workflow_name=None)

    log.info("sent", extra={"taskName": "kept out", "token": "t1"})
    log_tool_event(log, action="emit_ui", status="done", event_id="e", message="100 % sent", msg="kept out")

    assert lines(caplog, "tool_name", "chat_id", "action", "status", "token") == [
        ("INFO", "sent", "mail", "c", None, None, "***"),
        ("INFO", "100 % sent", "mail", "c", "emit_ui", "done", None),
    ]


def test_an_operation_is_logged_with_how_it_ended(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with log_operation(get_workflow_logger("W"), "load", part=1):
        pass
    with pytest.raises(OSError, match="gone"), log_operation(logging.getLogger("own"), "save"):
        raise OSError("gone")

    assert lines(caplog, "operation", "part", "error_type") == [
        ("INFO", "operation_started", "load", 1, None),
        ("INFO", "operation_completed", "load", 1, None),
        ("INFO", "operation_started", "save", None, None),
        ("ERROR", "operation_failed", "save", None, "OSError"),
    ]


MAPPINGS: list[Callable[[Mapping[str, Any]], Any]] = [dict, ContextVariables, CallContext]


@pytest.mark.design("D4-64")
@pytest.mark.parametrize("made", MAPPINGS)
def test_a_context_variable_is_read_and_set(made: Callable[[Mapping[str, Any]], Any]) -> None:
    context = made({"a": [1], "none": None})

    assert get_context_variable(context, "a") == [1]
    assert get_context_variable(context, "none", 5) is None
    assert get_context_variable(context, "b") is None
    assert get_context_variable(context, "b", 5) == 5
    set_context_variable(context, "b", {"c": 1})
    assert get_context_variable(context, "b") == {"c": 1}
    assert context["b"] == {"c": 1}


def test_a_variable_that_is_set_counts_as_written_by_the_call() -> None:
    context = CallContext({"a": [1], "b": 2})

    get_context_variable(context, "a").append(2)
    set_context_variable(context, "b", 2)

    assert context.changes().written_names == {"a", "b"}
    assert context.changes().values == {"a": [1, 2], "b": 2}


@pytest.mark.parametrize("nothing", [None, "context", 5, ["a"]])
def test_what_is_no_context_is_an_error(nothing: Any) -> None:
    with pytest.raises(TypeError, match="pass the context variables that the function received"):
        get_context_variable(nothing, "a")
    with pytest.raises(TypeError, match="pass the context variables that the function received"):
        set_context_variable(nothing, "a", 1)
