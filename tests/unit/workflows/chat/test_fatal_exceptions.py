"""Package code that raises what would end a process: a fault of the package."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.unit.workflows.chats import Chat, build_chat
from tests.unit.workflows.packages import load, write_tool
from workflows.chat.chat_errors import PackageDefect
from workflows.chat.package_code.package_modules import PackageModules
from workflows.chat.tools.tool_functions import load_tool_functions
from workflows.outcome import OutcomeKind

RAISED = {
    "KeyboardInterrupt": "KeyboardInterrupt: ",
    "SystemExit(3)": "SystemExit: 3",
    "GeneratorExit('over')": "GeneratorExit: over",
    "asyncio.CancelledError('away')": "CancelledError: away",
    "type('Odd', (BaseException,), {})('odd')": "Odd: odd",
}
ANSWERS = {"answers": {"A": [{"tool_calls": [{"name": "t", "arguments": {"order": {"n": 1}}}]}, {"text": "went on"}]}}

raising = pytest.mark.parametrize(("raised", "said"), RAISED.items(), ids=RAISED.values())


@raising
@pytest.mark.parametrize("place", ["itself", "neighbour"])
def test_a_file_that_raises_it_is_a_defect(tmp_path: Path, raised: str, said: str, place: str) -> None:
    raising = f"import asyncio\nraise {raised}\n"
    write_tool(tmp_path, "near.py", raising if place == "neighbour" else "")
    write_tool(tmp_path, "t.py", f"from . import near\n{raising if place == 'itself' else ''}def t(): ...\n")
    package = load(tmp_path, tools=[{"agent": "A", "file": "t.py", "function": "t"}])

    with pytest.raises(PackageDefect) as caught:
        load_tool_functions(package, PackageModules(package))

    assert str(caught.value).startswith(f"t.py failed when it was loaded: {said}")


async def tool_answer(folder: Path, source: str) -> str:
    """Returns the tool's result as the model gets it."""
    write_tool(folder, "t.py", source)
    package = load(folder, tools=[{"agent": "A", "file": "t.py", "function": "t"}])
    async with asyncio.timeout(10):
        outcome, kept = await Chat(build_chat(package, ANSWERS, folder)).run()
    assert (outcome.kind, kept.turn(1).text) == (OutcomeKind.COMPLETED, "went on")
    [text] = [each["text"] for event in kept.turn(1).events for each in event.get("tool_results", ())]
    return str(text)


@raising
async def test_a_validator_that_raises_it_fails_its_tool(tmp_path: Path, raised: str, said: str) -> None:
    checked = (
        "class Order(BaseModel):\n    n: int\n    @field_validator('n')\n    @classmethod\n    def check(cls, n):\n"
    )
    source = f"import asyncio\nfrom pydantic import BaseModel, field_validator\n{checked}        raise {raised}\n"

    text = await tool_answer(tmp_path, f"{source}\ndef t(order: Order): return 1\n")

    told_shortly = "it cancelled itself" if "Cancelled" in said else said
    assert text.startswith(f"The tool t failed: {told_shortly}")


async def test_an_error_whose_text_raises_it_fails_its_tool(tmp_path: Path) -> None:
    mute = "class Mute(Exception):\n    def __str__(self): raise KeyboardInterrupt\n"

    text = await tool_answer(tmp_path, f"{mute}\ndef t(order: dict): raise Mute\n")

    assert text == "The tool t failed: Mute: (its text cannot be read)"


@raising
async def test_what_a_hook_leaves_and_raises_it_when_it_is_read_fails_the_hook(
    tmp_path: Path, raised: str, said: str
) -> None:
    odd = f"import asyncio\nclass Odd(dict):\n    def get(self, *_):\n        raise {raised}\n"
    write_tool(tmp_path, "own.py", f"{odd}\ndef f(messages): return [Odd()]\n")
    kind = "process_all_messages_before_reply"
    hook = {"hook_type": kind, "hook_agent": "A", "filename": "own.py", "function": "f"}
    chat = Chat(build_chat(load(tmp_path, hooks={"hooks": [hook]}), ANSWERS, tmp_path))

    outcome, _ = await chat.run()

    told_shortly = "it cancelled itself" if "Cancelled" in said else said
    assert outcome.kind is OutcomeKind.TOOL_ERROR
    assert outcome.reason == f"{kind} own.py:f of agent A in turn 1 failed: {told_shortly} (tools/own.py:4, in get)"
    assert chat.last is not None
    json.dumps([each.as_document() for each in chat.last.incidents])
