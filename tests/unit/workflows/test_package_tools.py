"""Package tools in a chat: whatever they do, the model gets one text and the run goes on."""

import asyncio
import logging
from collections.abc import Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.unit.workflows.chats import THREADS, Chat, Kept, built
from tests.unit.workflows.packages import load, write_tool
from workflows.chat.live import LiveTurn
from workflows.chat.package_tools import PackageTool
from workflows.chat.tool_functions import MAX_RESULT, load_tool_functions
from workflows.chat.tool_modules import PackageModules
from workflows.outcome import OutcomeKind

if TYPE_CHECKING:
    from ag2.events import ToolCallEvent

TWICE = {"answers": {"A": [{"tool_calls": [{"name": "t"}]}, {"text": "went on"}]}}


async def told(folder: Path, source: str) -> str:
    """What the model is told about the tool's result."""
    write_tool(folder, "t.py", source)
    package = load(folder, tools=[{"agent": "A", "file": "t.py", "function": "t"}])
    async with asyncio.timeout(10):
        outcome, kept = await Chat(built(package, TWICE, folder)).run()
    assert outcome.kind is OutcomeKind.COMPLETED
    assert kept.turn(1).text == "went on"
    return result(kept)


def result(kept: Kept) -> str:
    texts = [each["text"] for event in kept.turn(1).events for each in event.get("tool_results", ())]
    assert len(texts) == 1
    return str(texts[0])


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError('no such order')", "The tool t failed: ValueError: no such order"),
        ("raise SystemExit(3)", "The tool t failed: SystemExit: 3"),
        ("raise KeyboardInterrupt", "The tool t failed: KeyboardInterrupt: "),
        ("import asyncio; raise asyncio.CancelledError", "The tool t failed: RuntimeError: the tool cancelled itself"),
        ("import asyncio; raise asyncio.TimeoutError", "The tool t failed: TimeoutError: "),
        ("raise StopIteration", "The tool t failed: RuntimeError: "),
        ("raise GeneratorExit('over')", "The tool t failed: GeneratorExit: over"),
        ("raise type('Odd', (BaseException,), {})('odd')", "The tool t failed: Odd: odd"),
        ("raise type('Mute', (ValueError,), {'__str__': None})", "The tool t failed: Mute: (its text cannot be read)"),
        ("raise ValueError('x' * 5000)", "The tool t failed: ValueError: xxx"),
    ],
)
async def test_a_tool_that_fails_is_one_sentence_for_the_model(tmp_path: Path, kind: str, body: str, said: str) -> None:
    text = await told(tmp_path, f"{kind} t():\n    {body}\n")

    assert text.startswith(said)
    assert len(text) <= 500
    assert "Traceback" not in text
    assert str(tmp_path) not in text


async def test_a_run_that_is_closed_inside_a_tool_stays_closed(tmp_path: Path) -> None:
    """As the garbage collector closes what a loop has left behind."""
    write_tool(tmp_path, "t.py", "import asyncio\nasync def t(): await asyncio.Event().wait()\n")
    package = load(tmp_path, tools=[{"agent": "A", "file": "t.py", "function": "t"}])
    [function] = load_tool_functions(package, PackageModules(package)).values()
    tool = PackageTool(function, THREADS)
    event = SimpleNamespace(serialized_arguments={})
    live = LiveTurn(Chat(built(package, TWICE, tmp_path)).conversation(Kept()), "A", 1)
    left: list[Coroutine[Any, Any, Any]] = []

    async def start() -> None:
        left.append(tool._result(cast("ToolCallEvent", event), live))
        left[0].send(None)

    await asyncio.create_task(start())
    with pytest.raises(GeneratorExit):
        left[0].throw(GeneratorExit)


async def test_the_traceback_goes_to_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await told(tmp_path, "def t(): raise ValueError('no such order')\n")

    record = next(record for record in caplog.records if record.getMessage() == "tool_failed")
    assert record.levelno == logging.WARNING
    assert record.exc_info is not None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("'as it is'", "as it is"),
        ("{'a': [1, 'é']}", '{"a": [1, "é"]}'),
        ("None", "null"),
        ("''", ""),
        ("__import__('datetime').date(2026, 1, 1)", '"2026-01-01"'),
        ("{('a', 1): 2}", "{('a', 1): 2}"),
        ("b'x'", "\"b'x'\""),
    ],
)
async def test_a_result_of_any_type_is_text(tmp_path: Path, value: str, text: str) -> None:
    assert await told(tmp_path, f"def t(): return {value}\n") == text


async def test_a_result_in_a_circle_is_text(tmp_path: Path) -> None:
    assert await told(tmp_path, "def t():\n    x = []\n    x.append(x)\n    return x\n") == "[[...]]"


async def test_a_result_that_refuses_to_be_shown_is_a_failed_tool(tmp_path: Path) -> None:
    source = (
        "class Mute:\n    def __str__(self): raise OSError('mute')\n    __repr__ = __str__\ndef t(): return Mute()\n"
    )
    assert await told(tmp_path, source) == "The tool t failed: OSError: mute"


async def test_a_huge_result_is_cut_and_says_so(tmp_path: Path) -> None:
    text = await told(tmp_path, f"def t(): return 'x' * {MAX_RESULT + 1}\n")

    assert len(text) < MAX_RESULT + 50
    assert text.endswith(f"… (cut, {MAX_RESULT + 1} characters)")


@pytest.mark.parametrize("arguments", [{"n": "many"}, {}, {"n": 1, "context_variables": {"app_id": "globex"}}])
async def test_arguments_that_do_not_fit_are_told_to_the_model(tmp_path: Path, arguments: dict[str, object]) -> None:
    write_tool(tmp_path, "t.py", "def t(n: int, context_variables): raise AssertionError\n")
    package = load(tmp_path, tools=[{"agent": "A", "file": "t.py", "function": "t"}])
    answers = {"answers": {"A": [{"tool_calls": [{"name": "t", "arguments": arguments}]}, {"text": "went on"}]}}

    _, kept = await Chat(built(package, answers, tmp_path)).run()

    assert result(kept).startswith("The arguments do not fit: ")


async def test_several_calls_in_one_answer_all_get_their_result(tmp_path: Path) -> None:
    write_tool(tmp_path, "t.py", "def t(n: int): return n * 10\n")
    package = load(tmp_path, tools=[{"agent": "A", "file": "t.py", "function": "t"}])
    calls = [{"name": "t", "arguments": {"n": number}} for number in range(5)]
    answers = {"answers": {"A": [{"tool_calls": calls}, {"text": "went on"}]}}

    _, kept = await Chat(built(package, answers, tmp_path)).run()

    [asked] = [event["tool_calls"] for event in kept.turn(1).events if event.get("tool_calls")]
    [results] = [event["tool_results"] for event in kept.turn(1).events if "tool_results" in event]
    assert {each["id"]: each["text"] for each in results} == {
        call["id"]: str(number * 10) for number, call in enumerate(asked)
    }


async def test_a_tool_belongs_to_its_agents_only(tmp_path: Path) -> None:
    write_tool(tmp_path, "t.py", "def t(): return 'secret'\n")
    package = load(tmp_path, tools=[{"agent": "B", "file": "t.py", "function": "t"}])

    _, kept = await Chat(built(package, TWICE, tmp_path)).run()

    assert "secret" not in kept.saved[0]
