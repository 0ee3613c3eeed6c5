"""The script provider: the next answer, also after failures, and bad files."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.chats import Chat, build_chat
from tests.unit.workflows.packages import ORCHESTRATOR, load, rule, write_tool
from workflows.chat.chat_errors import ModelError, PackageDefect
from workflows.chat.providers.script import Script, read_script
from workflows.outcome import OutcomeKind

TOOL = {"tool_calls": [{"name": "note"}]}
ERROR = {"error": {"status": 429}}
EMPTY: Any = {"text": " ", "tool_calls": []}
ONE, TWO, DEFAULT = {"text": "one"}, {"text": "two"}, {"text": "default"}


def script(*entries: Any, default: Any = None) -> Script:
    return Script("answers.yaml", {"A": list(entries)}, default)


@pytest.mark.parametrize(
    ("entries", "answered", "failed", "expected"),
    [
        ([ONE, TWO], 0, 0, ONE),
        ([ONE, TWO], 1, 0, TWO),
        ([ONE, TWO], 2, 0, DEFAULT),
        ([ERROR, ONE], 0, 0, ERROR),
        ([ERROR, ONE], 0, 1, ONE),
        ([ERROR, ERROR, ONE], 0, 1, ERROR),
        ([ONE, ERROR, TWO], 1, 0, ERROR),
        ([ONE, ERROR, TWO], 1, 1, TWO),
        ([ONE, ERROR, TWO], 0, 1, ONE),  # the turn failed half-way and begins again
        ([EMPTY, ONE], 0, 0, EMPTY),
        ([EMPTY, ONE], 0, 1, ONE),  # as an error does
        ([{"text": "", "tool_calls": [{"name": "note"}]}, TWO], 1, 0, TWO),
        ([ONE, TWO], 0, 3, ONE),  # failures that no entry defines
        ([], 0, 0, DEFAULT),
    ],
)
def test_the_next_entry(entries: list[Any], answered: int, failed: int, expected: Any) -> None:
    assert script(*entries, default=DEFAULT).next_answer("A", answered=answered, failed=failed) is expected


def test_used_up_without_a_default_fails_for_good() -> None:
    with pytest.raises(ModelError, match="1 answers for A and no default") as caught:
        script(ONE).next_answer("A", answered=1, failed=0)

    assert not caught.value.transient


def test_another_agent_has_the_default() -> None:
    assert script(ONE, default=DEFAULT).next_answer("B", answered=0, failed=0) is DEFAULT


async def test_a_turn_that_failed_half_way_is_answered_anew_on_the_next_attempt(tmp_path: Path) -> None:
    write_tool(
        tmp_path, "note.py", "def note(context_variables):\n    context_variables['noted'] = True\n    return 'ok'\n"
    )
    package = load(tmp_path, tools=[{"agent": "A", "file": "note.py", "function": "note"}])
    chat = Chat(build_chat(package, {"answers": {"A": [TOOL, ERROR, ONE]}}, tmp_path))

    first, kept = await chat.run()
    second, again = await chat.run(failed={"A": sum(not call.ok for call in kept.calls)})

    assert (first.kind, first.transient, kept.turns) == (OutcomeKind.MODEL_ERROR, True, [])
    assert second.kind is OutcomeKind.COMPLETED
    assert (again.turn(1).text, again.context(1)) == ("one", {"noted": True})


async def test_entries_are_used_in_order_over_all_turns_of_an_agent(tmp_path: Path) -> None:
    package = load(
        tmp_path,
        orchestrator={**ORCHESTRATOR, "max_turns": 4},
        handoffs={"handoff_rules": [rule("A", "B"), rule("B", "A")]},
    )
    chat = Chat(build_chat(package, {"answers": {"A": [ONE, TWO]}, "default": DEFAULT}, tmp_path))

    _, kept = await chat.run()

    assert [kept.turn(number).text for number in range(1, 5)] == ["one", "default", "two", "default"]


async def test_usage_is_recorded_as_written(tmp_path: Path) -> None:
    usage = {"input": 100, "cached_input": 60, "cache_write": 10, "output": 20, "reasoning": 5}
    chat = Chat(build_chat(load(tmp_path), {"answers": {"A": [{"text": "x", "usage": usage}]}}, tmp_path))

    _, kept = await chat.run()

    tokens = kept.calls[0].tokens
    assert {name: getattr(tokens, name) for name in usage} == usage
    assert (kept.calls[0].provider, kept.calls[0].model) == ("script", "script")


async def test_an_answer_waits_for_its_delay(tmp_path: Path) -> None:
    chat = Chat(build_chat(load(tmp_path), {"answers": {"A": [{"text": "x", "delay_s": 60}]}}, tmp_path))

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await chat.run()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "write answers:"),
        ("answers: []", "write answers:"),
        ("answers: {A: {text: x}}", "write answers:"),
        ("answers: {A: [x]}", "answers.A[0]: must be a mapping"),
        ("answers: {A: [{text: x}, {}]}", "answers.A[1] is empty"),
        ("answers: {A: [{text: null}]}", "answers.A[0] is empty"),
        (
            "answers: {A: [{txt: x}]}",
            "answers.A[0].txt: is not a known field; its fields are text, tool_calls, usage, delay_s, error",
        ),
        ("answers: {A: [{text: {a: b}}]}", "answers.A[0].text"),
        ("answers: {A: [{text: NO}]}", "put it in quotes"),
        ("answer: {A: [{text: x}]}", "answer is not a known key"),
        ("answers: {A: [{tool_calls: {name: x}}]}", "answers.A[0].tool_calls: "),
        ("answers: {A: [{tool_calls: [{arguments: {}}]}]}", "answers.A[0].tool_calls[0].name: "),
        (
            "answers: {A: [{tool_calls: [{name: x, arguments: '{}'}]}]}",
            "answers.A[0].tool_calls[0].arguments: must be a mapping",
        ),
        ("answers: {A: [{text: x, usage: {inptu: 5}}]}", "answers.A[0].usage.inptu: "),
        ("answers: {A: [{text: x, usage: {input: -5}}]}", "answers.A[0].usage.input: "),
        ("answers: {A: [{text: x, delay_s: soon}]}", "answers.A[0].delay_s: "),
        ("answers: {A: [{text: x, delay_s: .nan}]}", "answers.A[0].delay_s: "),
        ("answers: {A: [{error: {status: bad}}]}", "answers.A[0].error.status: "),
        (
            "answers: {A: [{text: x, tool_calls: [{name: x, args: {}}]}]}",
            "args: is not a known field; its fields are name,",
        ),
        ("default: {}", "default is empty"),
        ("answers: [", "line 2"),
    ],
)
def test_a_bad_file_is_a_defect_that_names_the_place(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "answers.yaml"
    path.write_text(text)

    with pytest.raises(PackageDefect) as caught:
        read_script(path)

    assert said in str(caught.value)


def test_an_absent_file_is_a_defect(tmp_path: Path) -> None:
    with pytest.raises(PackageDefect, match="cannot be read"):
        read_script(tmp_path / "absent.yaml")


async def test_numbers_in_quotes_are_numbers(tmp_path: Path) -> None:
    """A script may come from a program that writes everything as text."""
    error = {"status": "529", "retry_after_s": "7"}
    answers = {"A": [{"error": error}, {"text": 5, "usage": {"input": "12"}, "delay_s": "0"}]}
    chat = Chat(build_chat(load(tmp_path), {"answers": answers}, tmp_path))

    first, _ = await chat.run()
    _, kept = await chat.run(failed={"A": 1})

    assert (first.transient, first.retry_after_s) == (True, 7)
    assert (kept.turn(1).text, kept.calls[0].tokens.input) == ("5", 12)
