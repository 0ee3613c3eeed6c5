"""Tool calls as they are measured: each once, whoever made it, and none that its run cut off."""

import asyncio
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.workflows.chats import Chat, Kept
from tests.unit.workflows.test_auto_tools import SAVE, automatic
from workflows.chat.errors import NeedsHuman
from workflows.chat.invoking import RaisedError
from workflows.chat.live import Conversation, LiveTurn
from workflows.chat.tool_calls import measured
from workflows.chat.tool_functions import ToolRefused
from workflows.context.redaction import Redactor
from workflows.spans import NO_SPANS


@pytest.mark.parametrize(
    ("error", "heard", "noted"),
    [
        (None, [("work", False)], "done"),
        (ToolRefused("a number, please"), [("work", True)], "failed"),
        (RaisedError(ValueError()), [("work", True)], "failed"),
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

    with pytest.raises(type(error)) if error is not None else nullcontext(), measured(live, tool, '{"amount": 12}'):
        if error is not None:
            raise error

    assert calls == heard
    call = {"tool": "work", "arguments": '{"amount": 12}', "state": noted}
    assert live.calls_as_document() == {"turn": 1, "agent": "A", "calls": [call] if has_effects else []}


class Heard(Chat):
    def conversation(self, kept: Kept, *, failed: Any = None) -> Conversation:
        made = super().conversation(kept, failed=failed)
        self.calls: list[str] = []
        made.on_tool_call = lambda tool, _seconds, _failed: self.calls.append(tool)
        return made


async def test_an_automatic_one_is_counted_once(tmp_path: Path) -> None:
    chat = Heard(automatic(tmp_path / "p", SAVE).built)

    await chat.run()

    assert chat.calls == ["save"]
