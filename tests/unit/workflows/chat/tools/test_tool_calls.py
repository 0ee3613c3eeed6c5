"""Package tools in a chat: the model gets one text, and the run continues."""

import asyncio
import json
import logging
from collections.abc import Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.unit.workflows.chat.package_code.test_tool_threads import wait_until
from tests.unit.workflows.chats import Chat, ChatRecorder, build_chat
from tests.unit.workflows.packages import load, rule, write_tool
from workflows.chat.chat_state import LiveTurn
from workflows.chat.model_call import turn_client
from workflows.chat.package_code.incidents import MAX_INCIDENTS
from workflows.chat.package_code.package_modules import PackageModules
from workflows.chat.tools.tool_calls import PackageTool
from workflows.chat.tools.tool_functions import MAX_RESULT_CHARACTERS, load_tool_functions
from workflows.context.redaction import Redactor
from workflows.outcome import Outcome, OutcomeKind

if TYPE_CHECKING:
    from ag2.context import ConversationContext
    from ag2.events import ModelResponse, ToolCallEvent

T = {"agent": "A", "file": "t.py", "function": "t"}
TWICE = {"answers": {"A": [{"tool_calls": [{"name": "t"}]}, {"text": "went on"}]}}


async def tool_answer(folder: Path, source: str, **entry: Any) -> str:
    """Returns the tool's result as the model gets it."""
    write_tool(folder, "t.py", source)
    package = load(folder, tools=[{"agent": "A", "file": "t.py", "function": "t", **entry}])
    async with asyncio.timeout(10):
        outcome, kept = await Chat(build_chat(package, TWICE, folder)).run()
    assert outcome.kind is OutcomeKind.COMPLETED
    assert kept.turn(1).text == "went on"
    return result(kept)


def result(recorder: ChatRecorder) -> str:
    texts = [each["text"] for event in recorder.turn(1).events for each in event.get("tool_results", ())]
    assert len(texts) == 1
    return str(texts[0])


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError('no such order')", "The tool t failed: ValueError: no such order"),
        ("raise SystemExit(3)", "The tool t failed: SystemExit: 3"),
        ("raise KeyboardInterrupt", "The tool t failed: KeyboardInterrupt: "),
        ("import asyncio; raise asyncio.CancelledError", "The tool t failed: it cancelled itself"),
        ("import asyncio; raise asyncio.TimeoutError", "The tool t failed: TimeoutError: "),
        ("raise StopIteration", "The tool t failed: RuntimeError: "),
        ("raise GeneratorExit('over')", "The tool t failed: GeneratorExit: over"),
        ("raise type('Odd', (BaseException,), {})('odd')", "The tool t failed: Odd: odd"),
        ("raise type('Mute', (ValueError,), {'__str__': None})", "The tool t failed: Mute: (its text cannot be read)"),
        ("raise ValueError('x' * 5000)", "The tool t failed: ValueError: xxx"),
    ],
)
async def test_a_tool_that_fails_is_one_sentence_for_the_model(tmp_path: Path, kind: str, body: str, said: str) -> None:
    text = await tool_answer(tmp_path, f"{kind} t():\n    {body}\n")

    assert text.startswith(said)
    assert len(text) <= 500
    assert "Traceback" not in text
    assert str(tmp_path) not in text


async def test_a_run_that_is_closed_inside_a_tool_stays_closed(tmp_path: Path) -> None:
    """As the garbage collector closes what a loop has left open."""
    write_tool(tmp_path, "t.py", "import asyncio\nasync def t(): await asyncio.Event().wait()\n")
    package = load(tmp_path, tools=[{"agent": "A", "file": "t.py", "function": "t"}])
    [function] = load_tool_functions(package, PackageModules(package)).values()
    tool = PackageTool(function)
    event = SimpleNamespace(id="1", serialized_arguments={}, arguments="{}")
    live = LiveTurn(Chat(build_chat(package, TWICE, tmp_path)).conversation(ChatRecorder()), "A", 1)
    left: list[Coroutine[Any, Any, Any]] = []

    async def start() -> None:
        left.append(tool._run_or_replay(cast("ToolCallEvent", event), live))
        left[0].send(None)

    await asyncio.create_task(start())
    with pytest.raises(GeneratorExit):
        left[0].throw(GeneratorExit)


async def test_a_model_gets_nothing_hidden_from_a_tool(tmp_path: Path) -> None:
    write_tool(tmp_path, "t.py", "def t(key: str = 'secret-value'):\n    'Looks up with secret-value.'\n")
    package = load(tmp_path, tools=[{"agent": "A", "file": "t.py", "function": "t"}])
    conversation = Chat(build_chat(package, TWICE, tmp_path), redactor=Redactor(["secret-value"])).conversation(
        ChatRecorder()
    )
    [tool] = conversation.built_package.agents["A"].tools

    with LiveTurn(conversation, "A", 1).as_current():
        [schema] = await tool.schemas(cast("ConversationContext", None))

    assert "secret-value" not in str(schema)
    assert schema.function.description == "Looks up with (hidden)."


async def test_the_traceback_goes_to_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await tool_answer(tmp_path, "def t(): raise ValueError('no such order')\n")

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
    assert await tool_answer(tmp_path, f"def t(): return {value}\n") == text


async def test_a_result_in_a_circle_is_text(tmp_path: Path) -> None:
    assert await tool_answer(tmp_path, "def t():\n    x = []\n    x.append(x)\n    return x\n") == "[[...]]"


async def test_a_result_that_refuses_to_be_shown_is_a_failed_tool(tmp_path: Path) -> None:
    source = (
        "class Mute:\n    def __str__(self): raise OSError('mute')\n    __repr__ = __str__\ndef t(): return Mute()\n"
    )
    assert await tool_answer(tmp_path, source) == "The tool t failed: OSError: mute"


async def test_a_huge_result_is_cut_and_marked(tmp_path: Path) -> None:
    text = await tool_answer(tmp_path, f"def t(): return 'x' * {MAX_RESULT_CHARACTERS + 1}\n")

    assert len(text) < MAX_RESULT_CHARACTERS + 50
    assert text.endswith(f"… (cut, {MAX_RESULT_CHARACTERS + 1} characters)")


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("import pydantic\nclass M(pydantic.BaseModel): n: int = 1\ndef t(): return M()\n", '{"n": 1}'),
        ("def t():\n    yield 1\n    yield {'a': 2}\n", '[1, {"a": 2}]'),
        ("async def t():\n    yield 'a'\n", '["a"]'),
    ],
)
async def test_a_model_and_what_a_generator_yields_are_data(tmp_path: Path, source: str, value: str) -> None:
    assert await tool_answer(tmp_path, source) == value


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_a_tool_that_takes_too_long_is_one_sentence_for_the_model(tmp_path: Path, kind: str) -> None:
    pause = "time.sleep(0.001)" if kind == "def" else "await asyncio.sleep(0.001)"
    source = f"import asyncio, time\n{kind} t():\n    while True: {pause}\n"

    text = await tool_answer(tmp_path, source, timeout_s=0.2)  # a busy machine takes a while to begin a thread

    assert text == "The tool t failed: it took longer than 0.2 s"


HANGING = [
    "async def t():\n    began()\n    try: await asyncio.Event().wait()\n    except ValueError: pass\n",
    "async def t():\n    began()\n    try: await asyncio.Event().wait()\n    except BaseException: pass\n",
    "def t():\n    began()\n    while True: time.sleep(0.001)\n",
    "def t():\n    began()\n    try: time.sleep(0.05)\n    except Exception: pass\n",
]


@pytest.mark.parametrize("source", HANGING)
async def test_a_cancel_of_the_run_ends_it_whatever_its_tool_does(tmp_path: Path, source: str) -> None:
    mark = tmp_path.parent / f"{tmp_path.name}-began"
    head = f"import asyncio, time, pathlib\ndef began(): pathlib.Path({str(mark)!r}).touch()\n"
    write_tool(tmp_path, "t.py", head + source)
    package = load(tmp_path, tools=[{"agent": "A", "file": "t.py", "function": "t"}])
    running = asyncio.create_task(Chat(build_chat(package, TWICE, tmp_path)).run())
    await wait_until(mark.exists)

    running.cancel()

    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_what_went_wrong_stands_in_the_turns_record_without_what_is_hidden(tmp_path: Path) -> None:
    write_tool(tmp_path, "t.py", "def t(): raise ValueError('the key is hunter2hunter2' + 'x' * 600)\n")
    package = load(tmp_path, tools=[{"agent": "A", "file": "t.py", "function": "t"}])

    _, kept = await Chat(build_chat(package, TWICE, tmp_path), redactor=Redactor(["hunter2hunter2"])).run()

    [error] = kept.turn(1).errors
    assert (error.where, error.type, error.agent, error.turn) == ("tool t", "ValueError", "A", 1)
    assert error.message.startswith("the key is (hidden)xxx")
    assert "in t\n" in error.traceback
    assert "hunter2" not in kept.saved[0]


FAILS = {
    "an error": ("def t(): raise KeyError('SLACK_URL')\n", "KeyError: 'SLACK_URL' (tools/t.py:1, in t)"),
    "too slow": ("import asyncio\nasync def t(): await asyncio.sleep(9)\n", "it took longer than 0.2 s"),
    "no text": (
        "class Odd:\n    def __str__(self): raise OSError\ndef t(): return Odd()\n",
        "OSError:  (tools/t.py:2, in __str__)",
    ),
}


@pytest.mark.parametrize(("source", "words"), FAILS.values(), ids=FAILS.keys())
async def test_a_tool_with_on_error_fail_fails_the_run_and_names_the_place(
    tmp_path: Path, source: str, words: str
) -> None:
    write_tool(tmp_path, "t.py", source)
    package = load(tmp_path, tools=[{**T, "on_error": "fail", "timeout_s": 0.2}])

    chat = Chat(build_chat(package, TWICE, tmp_path))
    outcome, kept = await chat.run()

    assert outcome.kind is OutcomeKind.TOOL_ERROR
    assert outcome.error is not None
    assert outcome.error.message.startswith(f"the tool t of agent A failed in turn 1: {words}")
    assert outcome.as_document()["error"] == {
        "type": "ToolFailed",
        "agent": "A",
        "turn": 1,
        "tool": "t",
        "message": outcome.reason,
    }
    assert Outcome.from_document(outcome.as_document()).error == outcome.error
    assert (kept.turns, len(kept.calls)) == ([], 1)  # the model is not asked again
    assert chat.last is not None
    assert (chat.last.failed_tool_count, len(chat.last.incidents)) == (1, 1)


async def test_a_failure_that_ends_the_run_precedes_a_question_of_its_reply(tmp_path: Path) -> None:
    asks = "from workflows.tools import use_ui_tool\nasync def asks(): return await use_ui_tool('Card', {})\n"
    write_tool(tmp_path, "t.py", asks + "async def t():\n    import asyncio\n    await asyncio.sleep(0.2)\n    1 / 0\n")
    package = load(tmp_path, tools=[{**T, "on_error": "fail"}, {**T, "function": "asks"}])
    both = {"answers": {"A": [{"tool_calls": [{"name": "asks"}, {"name": "t"}]}, {"text": "went on"}]}}

    outcome, _ = await Chat(build_chat(package, both, tmp_path)).run()

    assert outcome.kind is OutcomeKind.TOOL_ERROR


ASKS = """
from workflows.tools import use_ui_tool

async def asks(): return await use_ui_tool("Card", {})

def t(): 1 / 0
"""


@pytest.mark.parametrize("on_error", ["tell", "fail"])
async def test_a_call_that_failed_before_its_turn_rested_is_counted_once(tmp_path: Path, on_error: str) -> None:
    """Its record may be all that remains of a lost worker's failing run."""
    write_tool(tmp_path, "t.py", ASKS)
    package = load(tmp_path, tools=[T, {**T, "function": "asks"}])
    both = {"answers": {"A": [{"tool_calls": [{"name": "t"}, {"name": "asks"}]}, {"text": "went on"}]}}
    asking = Chat(build_chat(package, both, tmp_path))
    outcome, kept = await asking.run()
    assert (outcome.kind, asking.last and asking.last.failed_tool_count) == (OutcomeKind.NEEDS_HUMAN, 1)

    package = load(tmp_path, tools=[{**T, "on_error": on_error}, {**T, "function": "asks"}])
    answered = Chat(build_chat(package, both, tmp_path))
    assert asking.last is not None
    [question] = asking.last.questions
    answered.answers = {question.id: {"responses": {"Card": {"ok": True}}, "question": question.as_document()}}
    outcome, kept = await answered.run(kept)

    assert answered.last is not None
    assert answered.last.failed_tool_count == 1
    if on_error == "tell":
        assert (outcome.kind, kept.turn(1).text) == (OutcomeKind.COMPLETED, "went on")
        return
    assert outcome.kind is OutcomeKind.TOOL_ERROR
    assert outcome.reason == (
        "the tool t of agent A failed in turn 1: ZeroDivisionError: division by zero (tools/t.py:6, in t)"
    )


async def test_a_call_that_only_changed_directory_has_not_failed_on_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path.parent)
    write_tool(tmp_path, "t.py", ASKS.replace("1 / 0", "__import__('os').chdir('/')"))
    package = load(tmp_path, tools=[{**T, "on_error": "fail"}, {**T, "function": "asks"}])
    both = {"answers": {"A": [{"tool_calls": [{"name": "t"}, {"name": "asks"}]}, {"text": "went on"}]}}
    chat = Chat(build_chat(package, both, tmp_path))
    _, kept = await chat.run()
    [question] = chat.questions()
    assert chat.last is not None
    assert chat.last.failed_tool_count == 0

    chat.give(question, {"ok": True})
    outcome, kept = await chat.run(kept)

    assert (outcome.kind, [each.type for each in kept.turn(1).errors]) == (
        OutcomeKind.COMPLETED,
        ["WorkingDirectoryChanged"],
    )
    assert kept.checkpoint(1).counters.failed_tools == 0


@pytest.mark.parametrize("on_error", ["tell", "fail"])
async def test_a_refused_call_is_reported_to_the_model_and_is_no_failed_tool(tmp_path: Path, on_error: str) -> None:
    write_tool(tmp_path, "t.py", "def t(n: int): ...\n")
    package = load(tmp_path, tools=[{**T, "on_error": on_error}])

    outcome, kept = await Chat(build_chat(package, TWICE, tmp_path)).run()

    assert outcome.kind is OutcomeKind.COMPLETED
    assert "do not fit: n:" in result(kept)
    assert kept.checkpoint(1).counters.failed_tools == 0


async def test_failed_tools_are_counted_once_over_turns_and_attempts(tmp_path: Path) -> None:
    """Counts more than a turn's record holds; failures of a repeated turn count once."""
    write_tool(tmp_path, "t.py", "def t(n: int): raise ValueError(n)\n")
    package = load(tmp_path, tools=[T], handoffs={"handoff_rules": [rule("A", "A")]})
    calls = [{"name": "t", "arguments": {"n": number}} for number in range(MAX_INCIDENTS + 1)]
    rounds = [{"tool_calls": calls}, {"text": "ok"}, {"tool_calls": calls[:1]}]
    lost = {"answers": {"A": [*rounds, {"error": {"status": 400}}]}}

    chat = Chat(build_chat(package, lost, tmp_path))
    outcome, kept = await chat.run()

    assert outcome.kind is OutcomeKind.MODEL_ERROR
    assert kept.checkpoint(1).counters.failed_tools == MAX_INCIDENTS + 1
    assert chat.last is not None
    assert chat.last.failed_tool_count == MAX_INCIDENTS + 2

    again = Chat(build_chat(package, {"answers": {"A": [*rounds, {"text": "NEXT"}]}}, tmp_path))
    await again.run(kept)
    assert kept.checkpoint(2).counters.failed_tools == MAX_INCIDENTS + 2


async def test_a_tool_that_fails_all_the_time_does_not_fill_the_record(tmp_path: Path) -> None:
    write_tool(tmp_path, "t.py", "def t(n: int): raise ValueError(n)\n")
    package = load(tmp_path, tools=[{"agent": "A", "file": "t.py", "function": "t"}])
    calls = [{"name": "t", "arguments": {"n": number}} for number in range(MAX_INCIDENTS + 1)]

    _, kept = await Chat(
        build_chat(package, {"answers": {"A": [{"tool_calls": calls}, {"text": "ok"}]}}, tmp_path)
    ).run()

    assert len(kept.turn(1).errors) == MAX_INCIDENTS


async def test_what_the_run_knows_reaches_a_tool(tmp_path: Path) -> None:
    names = "chat_id, app_id, turn_idempotency_key"
    source = f"def t({names}, **rest): return [{names}, rest['agent_name']]\n"
    write_tool(tmp_path, "t.py", source)
    package = load(tmp_path, tools=[{"agent": "A", "file": "t.py", "function": "t"}])
    fixed = {"run_id": "run_1", "app_id": "acme", "chat_id": "chat_1"}

    _, kept = await Chat(build_chat(package, TWICE, tmp_path), fixed=fixed).run()

    assert result(kept) == '["chat_1", "acme", "run_1:1", "A"]'


@pytest.mark.parametrize(
    "sent",
    ["{", "null", "[1]", "7", '"text"', '{"n": 1', "", '{"n": NaN}', '{"n": 1e999}', "{" * 5000, '{"n": "\ud83d"}'],
)
async def test_arguments_of_any_form_are_survived(tmp_path: Path, sent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tool(tmp_path, "t.py", "def t(n: int): raise AssertionError\n")
    package = load(tmp_path, tools=[{"agent": "A", "file": "t.py", "function": "t"}])
    read = turn_client.repair_arguments

    def garble(response: "ModelResponse") -> "ModelResponse":
        for each in response.tool_calls.calls:
            each.arguments, each.id = sent, "half \ud83d"
        return read(response)

    monkeypatch.setattr(turn_client, "repair_arguments", garble)

    outcome, kept = await Chat(build_chat(package, TWICE, tmp_path)).run()

    assert outcome.kind is OutcomeKind.COMPLETED
    assert result(kept).startswith("The arguments do not fit: n: ")
    assert kept.turn(1).text == "went on"
    json.dumps(kept.turn(1).as_document(), ensure_ascii=False).encode()


@pytest.mark.parametrize("arguments", [{"n": "many"}, {}, {"n": 1, "note": "x"}])
async def test_arguments_that_do_not_fit_are_reported_to_the_model(
    tmp_path: Path, arguments: dict[str, object]
) -> None:
    write_tool(tmp_path, "t.py", "def t(n: int, context_variables): raise AssertionError\n")
    package = load(tmp_path, tools=[{"agent": "A", "file": "t.py", "function": "t"}])
    answers = {"answers": {"A": [{"tool_calls": [{"name": "t", "arguments": arguments}]}, {"text": "went on"}]}}

    _, kept = await Chat(build_chat(package, answers, tmp_path)).run()

    assert result(kept).startswith("The arguments do not fit: ")


async def test_several_calls_in_one_answer_all_get_their_result(tmp_path: Path) -> None:
    write_tool(tmp_path, "t.py", "def t(n: int): return n * 10\n")
    package = load(tmp_path, tools=[{"agent": "A", "file": "t.py", "function": "t"}])
    calls = [{"name": "t", "arguments": {"n": number}} for number in range(5)]
    answers = {"answers": {"A": [{"tool_calls": calls}, {"text": "went on"}]}}

    _, kept = await Chat(build_chat(package, answers, tmp_path)).run()

    [asked] = [event["tool_calls"] for event in kept.turn(1).events if event.get("tool_calls")]
    [results] = [event["tool_results"] for event in kept.turn(1).events if "tool_results" in event]
    assert {each["id"]: each["text"] for each in results} == {
        call["id"]: str(number * 10) for number, call in enumerate(asked)
    }


async def test_a_tool_belongs_to_its_agents_only(tmp_path: Path) -> None:
    write_tool(tmp_path, "t.py", "def t(): return 'secret'\n")
    package = load(tmp_path, tools=[{"agent": "B", "file": "t.py", "function": "t"}])

    _, kept = await Chat(build_chat(package, TWICE, tmp_path)).run()

    assert "secret" not in kept.saved[0]
