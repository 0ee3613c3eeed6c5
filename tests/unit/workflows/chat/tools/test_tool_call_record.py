"""Metrics of tool calls: each counts once, except those that their run cut off."""

import asyncio
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.workflows.chat.tools.test_auto_tools import SAVE, automatic
from tests.unit.workflows.chats import Chat, ChatRecorder, build_chat
from tests.unit.workflows.packages import load, write_tool
from workflows.chat.chat_errors import NeedsHuman
from workflows.chat.chat_state import Conversation, LiveTurn
from workflows.chat.package_code.invocation import PackageCodeError
from workflows.chat.tools.tool_call_record import measure_call
from workflows.chat.tools.tool_functions import ToolRefused
from workflows.context.redaction import Redactor
from workflows.spans import NO_SPANS


@pytest.mark.parametrize(
    ("error", "heard", "noted"),
    [
        (None, [("work", False)], "done"),
        (ToolRefused("a number, please"), [("work", True)], "failed"),
        (PackageCodeError(ValueError()), [("work", True)], "failed"),
        (NeedsHuman("who is it?"), [("work", False)], "asked"),
        (asyncio.CancelledError(), [], "begun"),
    ],
)
@pytest.mark.parametrize("has_effects", [True, False])
def test_each_ending_is_counted_for_what_it_is(
    error: BaseException | None, heard: list[tuple[str, bool]], noted: str, has_effects: bool
) -> None:
    calls: list[tuple[str, bool]] = []

    def count(tool: str, _seconds: float, failed: bool) -> None:
        calls.append((tool, failed))

    chat: Any = SimpleNamespace(on_tool_call=count, spans=NO_SPANS, redactor=Redactor())
    live = LiveTurn(chat, "A", 1)
    tool: Any = SimpleNamespace(name="work", has_effects=has_effects)

    with pytest.raises(type(error)) if error is not None else nullcontext(), measure_call(live, tool, '{"amount": 12}'):
        if error is not None:
            raise error

    assert calls == heard
    call = {"tool": "work", "arguments": '{"amount": 12}', "state": noted}
    assert live.calls_as_document() == {"turn": 1, "agent": "A", "calls": [call] if has_effects else []}


class EventLog(Chat):
    def conversation(self, recorder: ChatRecorder, *, failed: Any = None) -> Conversation:
        made = super().conversation(recorder, failed=failed)
        self.calls: list[tuple[str, bool]] = []
        made.on_tool_call = lambda tool, _seconds, failed: self.calls.append((tool, failed))
        return made


async def test_an_automatic_one_is_counted_once(tmp_path: Path) -> None:
    chat = EventLog(automatic(tmp_path / "p", SAVE).built)

    await chat.run()

    assert chat.calls == [("save", False)]


async def test_lifecycle_tools_are_counted_and_hooks_are_not(tmp_path: Path) -> None:
    """A failure at the end leaves the run succeeded; its count may be the only sign."""
    write_tool(tmp_path, "t.py", "def begin(ctx): ...\ndef end(ctx): 1 / 0\ndef read(messages): return messages\n")
    steps = [
        {"trigger": "before_chat", "file": "t.py", "function": "begin"},
        {"trigger": "after_chat", "file": "t.py", "function": "end"},
    ]
    kind = "process_all_messages_before_reply"
    hook = {"hook_type": kind, "hook_agent": "A", "filename": "t.py", "function": "read"}
    package = load(tmp_path, tools={"lifecycle_tools": steps}, hooks={"hooks": [hook]})
    chat = EventLog(build_chat(package, {"answers": {"A": [{"text": "ok"}]}}, tmp_path))

    await chat.run_to_its_close()

    assert chat.calls == [("begin", False), ("end", True)]
