"""`unattended runs answer`: what is refused before anybody asks the store, and how a question is shown."""

import sys
from typing import Any

import pytest
from click.testing import CliRunner

from ops.cli.runs import answer as asks
from ops.cli.runs.answer import _responses, answer
from ops.cli.runs.question_lines import answering_command, question_lines

ASKS: dict[str, Any] = {"kind": "tool", "number": 1, "agent": "A", "turn": 2, "text": "t waits", "tool": "Card"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "say what to answer with --message, --response or --json-responses"),
        (["--response", "Card=yes"], "'Card=yes' is not TOOL.KEY=VALUE, such as approve.verdict=yes"),
        (["--response", "Card.verdict"], "is not TOOL.KEY=VALUE"),
        (["--response", ".verdict=yes"], "is not TOOL.KEY=VALUE"),
        (["--json-responses", "{"], "is not JSON"),
        (["--json-responses", '{"Card": "yes"}'], "Card: write keys and values, such as"),
        (["--json-responses", "@nowhere.json"], "nowhere.json cannot be read"),
    ],
)
def test_wrong_use_is_told_with_its_option(options: list[str], told: str) -> None:
    result = CliRunner().invoke(answer, ["run_1", *options])

    assert result.exit_code == 2
    assert told in result.output


def test_values_are_json_where_they_are_json_and_text_otherwise() -> None:
    texts = ["Card.n=7", 'Card.s="7"', "Card.zip=007", "Card.ok=true", "Card.nan=NaN", "Card.a.b==x", "Card.e="]

    assert _responses('{"Card": {"n": 1, "kept": 1}, "Form": {}}', texts) == {
        "Card": {"n": 7, "kept": 1, "s": "7", "zip": "007", "ok": True, "nan": "NaN", "a.b": "=x", "e": ""},
        "Form": {},
    }


@pytest.mark.parametrize(
    ("question", "command"),
    [
        ({"kind": "message"}, 'unattended runs answer run_1 --message "…"'),
        (ASKS, "unattended runs answer run_1 --response Card.KEY=…"),
        ({**ASKS, "keys": ["a", "b c"]}, "unattended runs answer run_1 --response Card.a=… --response 'Card.b c'=…"),
        ({**ASKS, "tool": "v1.Card"}, 'unattended runs answer run_1 --json-responses \'{"v1.Card": {"KEY": "…"}}\''),
    ],
)
def test_a_question_says_the_command_that_answers_it(question: dict[str, Any], command: str) -> None:
    assert answering_command("run_1", question) == command


def test_a_question_is_shown_with_what_the_tool_shows_and_nothing_that_moves_a_cursor() -> None:
    question = {**ASKS, "text": "one\ntwo\x1b[2J", "payload": {"amount": 12}, "also": ["Form"]}

    lines = list(question_lines({"run_id": "run_1", "state": "needs_human", "question": question}))

    assert lines[0] == "question 1, of A in turn 2:"
    assert "\x1b" not in "".join(lines)
    assert [line.strip() for line in lines[3:]] == [
        'shows {"amount": 12}',
        "Form of the same turn waits as well, and may be answered with it",
    ]
    assert list(question_lines({"run_id": "run_1", "state": "queued", "question": None})) == []


@pytest.mark.parametrize(
    ("question", "typed", "said"),
    [
        ({"kind": "message"}, "the blue one\n", {"message": "the blue one"}),
        ({"keys": ["ok", "why"]}, "true\nfair enough\n", {"responses": {"Card": {"ok": True, "why": "fair enough"}}}),
        ({}, 'yes\n{"ok": true}\n', {"responses": {"Card": {"ok": True}}}),
    ],
)
def test_at_a_terminal_the_question_is_shown_and_its_answer_is_asked_for(
    question: dict[str, Any], typed: str, said: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = {"run_id": "run_1", "state": "needs_human", "question": {**ASKS, **question}}
    monkeypatch.setattr(asks, "with_database", lambda _work: run)

    with CliRunner().isolation(input=typed) as (_, stderr, _):
        monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
        answered = asks._asked_here("run_1")

    assert answered == {"question": 1, **said}
    assert b"t waits" in stderr.getvalue()
