"""`unattended runs answer`: usage errors, how questions are shown, and the prompts."""

import re
import sys
from typing import Any

import click
import pytest
from click.testing import CliRunner

from ops.cli.runs import answer_command as asks
from ops.cli.runs.answer_command import _parse_responses, answer, with_choice_as_text
from ops.presenters.question_lines import answer_command_line, answer_lines, question_lines
from tests.unit.ops.questions import PAY
from workers.control.change_result import RefusedError

QUESTIONS: dict[str, Any] = {"kind": "tool", "number": 1, "agent": "A", "turn": 2, "text": "t waits", "tool": "Card"}
ANSWER_KEYS: dict[str, Any] = {"kind": "message", "number": 1, "agent": "A", "turn": 1, "text": "Which colour?"}
RUN: dict[str, Any] = {"run_id": "run_1", "state": "needs_human"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "an answer is needed: --message, --response or --json-responses"),
        (["--question", "1"], "an answer is needed: --message, --response or --json-responses"),
        (["--question", "9" * 5000], "write the number of a question, such as 1, or its id"),
        (["--question", "first"], "write the number of a question, such as 1, or its id"),
        (["--response", "Card=yes"], "'Card=yes' is not TOOL.KEY=VALUE, such as approve.verdict=yes"),
        (["--response", "Card.verdict"], "is not TOOL.KEY=VALUE"),
        (["--response", ".verdict=yes"], "is not TOOL.KEY=VALUE"),
        (["--json-responses", "{"], "is not JSON"),
        (["--json-responses", '{"Card": "yes"}'], "Card: write keys and values, such as"),
        (["--json-responses", "@nowhere.json"], "nowhere.json cannot be read"),
    ],
)
def test_wrong_use_is_reported_with_its_option(options: list[str], message: str) -> None:
    result = CliRunner().invoke(answer, ["run_1", *options])

    assert result.exit_code == 2
    assert message in result.output


def test_values_are_json_where_they_are_json_and_text_otherwise() -> None:
    texts = ["Card.n=7", 'Card.s="7"', "Card.zip=007", "Card.ok=true", "Card.nan=NaN", "Card.a.b==x", "Card.e="]

    assert _parse_responses('{"Card": {"n": 1, "kept": 1}, "Form": {}}', texts) == {
        "Card": {"n": 7, "kept": 1, "s": "7", "zip": "007", "ok": True, "nan": "NaN", "a.b": "=x", "e": ""},
        "Form": {},
    }


@pytest.mark.parametrize(
    ("question", "command"),
    [
        (ANSWER_KEYS, 'unattended runs answer run_1 --question 1 --message "…"'),
        (QUESTIONS, "unattended runs answer run_1 --question 1 --response Card.KEY=…"),
        (PAY, "unattended runs answer run_1 --question 3 --response Refund.verdict=… --response Refund.why=…"),
        ({**PAY, "keys": None}, "unattended runs answer run_1 --question 3 --response Refund.choice=…"),
        (
            {**QUESTIONS, "keys": ["a", "b c"]},
            "unattended runs answer run_1 --question 1 --response Card.a=… --response 'Card.b c'=…",
        ),
        (
            {**QUESTIONS, "tool": "v1.Card"},
            'unattended runs answer run_1 --question 1 --json-responses \'{"v1.Card": {"KEY": "…"}}\'',
        ),
    ],
)
def test_a_question_shows_the_command_that_answers_it(question: dict[str, Any], command: str) -> None:
    assert answer_command_line("run_1", question) == command


def test_each_question_is_shown_with_arguments_and_no_cursor_codes() -> None:
    long = {"lines": [f"line {number}" for number in range(30)]}
    old = {**QUESTIONS, "text": "one\ntwo\x1b[2J", "payload": long, "also": ["Form"]}

    lines = list(question_lines({**RUN, "question": PAY, "questions": [old, PAY]}))

    assert "\x1b" not in "".join(lines)
    assert lines[0] == "question 1, of A in turn 2:"
    assert {'"line 0",', '"line 29"'} <= {line.strip() for line in lines}  # everything that is approved is shown
    assert lines[lines.index("question 3, of Clerk in turn 4:") - 1].strip() == "also waiting in this turn: Form"
    assert [line.strip() for line in lines[-4:]] == [
        "Pay 12 EUR?",
        'pay is called with {"amount": 12}',
        'shows {"to": "Ada"}',
        "choices: yes, no",
    ]


@pytest.mark.parametrize(
    ("run", "numbers"),
    [
        ({**RUN, "question": ANSWER_KEYS, "questions": [ANSWER_KEYS, PAY]}, ["1", "3"]),
        ({**RUN, "question": PAY}, ["3"]),  # of an older version
        ({**RUN, "question": {"kind": "message", "text": "x"}, "answers": [{}]}, ["2"]),
        ({**RUN, "question": None}, []),
        ({**RUN, "state": "queued", "question": ANSWER_KEYS, "questions": [ANSWER_KEYS]}, []),
    ],
)
def test_the_questions_that_wait_are_shown_whichever_version_asked(run: dict[str, Any], numbers: list[str]) -> None:
    assert re.findall(r"^question (\d+)", "\n".join(question_lines(run)), re.MULTILINE) == numbers


@pytest.mark.parametrize(
    ("kept", "lines"),
    [
        (
            {"number": 3, "by": "ops-key", "name": "the boss", "responses": {"Refund": {"verdict": "yes"}}}
            | {"question": PAY},
            [
                'answer 3 by ops-key ("the boss"), noon: {"Refund": {"verdict": "yes"}}',
                '   to Pay 12 EUR? [pay({"amount": 12})]',
            ],
        ),
        (
            {"number": 1, "by": "trigger nightly", "standing": True, "responses": {"Card": {"ok": True}}},
            ['answer 1 by trigger nightly, in advance, noon: {"Card": {"ok": true}}'],
        ),
        ({"by": "Ada (cli)", "message": "yes\x1b[2J"}, ["answer by Ada (cli), noon: yes\\x1b[2J"]),
    ],
)
def test_an_answer_is_shown_with_what_it_was_an_answer_to(kept: dict[str, Any], lines: list[str]) -> None:
    assert list(answer_lines(kept, "noon")) == lines


def _send_answer(
    monkeypatch: pytest.MonkeyPatch, typed: str, questions: list[dict[str, Any]], *options: Any, terminal: bool = True
) -> tuple[list[dict[str, Any]], str]:
    """Answer with these options (`question`, `fields`) and typed text; return what is sent and shown."""
    run = {**RUN, "question": questions[0], "questions": questions}
    monkeypatch.setattr(asks, "with_database", lambda _work: run)
    with CliRunner().isolation(input=typed) as (_, stderr, _):
        monkeypatch.setattr(sys.stdin, "isatty", lambda: terminal)
        sent = list(asks._collect_answers("run_1", *options))
    return sent, stderr.getvalue().decode()


YES = {"responses": {"Refund": {"verdict": "yes"}}}


@pytest.mark.parametrize(
    ("questions", "named", "fields", "typed", "sent"),
    [
        ([ANSWER_KEYS], None, {}, "blue\n", [{"question": 1, "message": "blue"}]),
        (
            [{**QUESTIONS, "keys": ["ok", "why"]}],
            None,
            {},
            "true\nfair enough\n",
            [{"question": 1, "responses": {"Card": {"ok": True, "why": "fair enough"}}}],
        ),
        ([QUESTIONS], None, {}, 'yes\n{"ok": true}\n', [{"question": 1, "responses": {"Card": {"ok": True}}}]),
        (
            [ANSWER_KEYS, PAY],
            None,
            {},
            "blue\nmaybe\nyes\nfair\n",
            [
                {"question": 1, "message": "blue"},
                {"question": "q_5f0c", "responses": {"Refund": {"verdict": "yes", "why": "fair"}}},
            ],
        ),
        ([ANSWER_KEYS, PAY], 1, {}, "blue\n", [{"question": 1, "message": "blue"}]),
        (
            [ANSWER_KEYS, {**PAY, "keys": None}],
            "q_5f0c",
            {},
            "no\n",
            [{"question": "q_5f0c", "responses": {"Refund": {"choice": "no"}}}],
        ),
        ([PAY], None, YES, "y\n", [{"question": "q_5f0c", **YES}]),
        ([ANSWER_KEYS, PAY], None, YES, "2\n3\n", [{"question": "q_5f0c", **YES}]),
        ([ANSWER_KEYS, PAY], 3, YES, "", [{"question": 3, **YES}]),
    ],
)
def test_at_a_terminal_questions_are_shown_and_omitted_values_prompted(
    questions: list[dict[str, Any]],
    named: Any,
    fields: dict[str, Any],
    typed: str,
    sent: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered, shown = _send_answer(monkeypatch, typed, questions, named, fields)

    assert answered == sent
    meant = [each for each in questions if named in (None, each["number"], each.get("id"))]
    if not (named and fields):
        assert all(str(each.get("title", each["text"])) in shown for each in meant)


def test_an_answer_that_is_not_confirmed_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match="1"):
        _send_answer(monkeypatch, "n\n", [PAY], None, YES)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"verdict": True, "n": 7}, {"verdict": "true", "n": 7}),
        ({"verdict": "true"}, {"verdict": "true"}),
        ({"verdict": 7}, {"verdict": "7"}),
        ({"verdict": 8}, {"verdict": 8}),
        ({"n": True}, {"n": True}),
    ],
)
def test_a_choice_is_sent_as_the_text_that_it_is(given: dict[str, Any], sent: dict[str, Any]) -> None:
    waiting = [ANSWER_KEYS, {**PAY, "choices": ["true", "7"]}]

    for name in (3, "q_5f0c"):
        fields = with_choice_as_text(waiting, {"question": name, "responses": {"Refund": given}})
        assert fields == {"question": name, "responses": {"Refund": sent}}
    assert with_choice_as_text(waiting, {"question": 1, "message": "x"}) == {"question": 1, "message": "x"}


def test_without_a_terminal_the_waiting_numbers_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        click.UsageError, match="--question is needed: questions 1 and 3 wait; `unattended runs show run_1`"
    ):
        _send_answer(monkeypatch, "", [ANSWER_KEYS, PAY], None, YES, terminal=False)
    with pytest.raises(RefusedError, match="run_1 asks no question 2 now: questions 1 and 3 wait"):
        _send_answer(monkeypatch, "", [ANSWER_KEYS, PAY], 2, {})
