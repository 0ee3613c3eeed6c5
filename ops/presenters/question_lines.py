"""Questions and answers as lines, and the command that answers a question."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ops.presenters.printable_text import to_printable
from ops.presenters.turn_lines import format_value
from workers.control.open_questions import waiting_questions

MAX_LINES = 40
MAX_VALUE_LINES = 400  # of arguments and payload: a person approves what is shown, so nearly nothing is cut
MAX_INLINE_CHARACTERS = 100

QuestionFields = Mapping[str, Any]


def question_lines(run: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of every waiting question of a run as JSON."""
    for question in waiting_questions(run):
        yield from single_question_lines(question)


def single_question_lines(question: QuestionFields) -> Iterator[str]:
    yield f"question {question['number']}, {_asker_text(question)}:"
    for line in str(question.get("title") or question.get("text") or "").splitlines()[:MAX_LINES]:
        yield f"   {to_printable(line)}"
    if question.get("arguments") is not None:
        function = question.get("function") or question.get("tool")
        yield from _value_lines(f"{function} is called with", question["arguments"])
    if question.get("payload") is not None:
        yield from _value_lines("shows", question["payload"])
    if question.get("choices"):
        yield f"   choices: {to_printable(', '.join(question['choices']))}"
    if question.get("also"):  # written by an older version, which asked one question for several tools
        yield f"   also waiting in this turn: {to_printable(', '.join(question['also']))}"


def _asker_text(question: QuestionFields) -> str:
    if not question.get("turn"):
        return "before the first turn"
    return to_printable(f"of {question.get('agent') or 'user'} in turn {question['turn']}")


def _value_lines(label: str, value: Any) -> Iterator[str]:
    """Print a short value on one line, a long one as indented JSON; a value that was too large is a text."""
    short = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if len(short) <= MAX_INLINE_CHARACTERS and "\n" not in short:
        yield to_printable(f"   {label} {short}")
        return
    lines = (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str, indent=2)).split(
        "\n"
    )
    yield to_printable(f"   {label}")
    for line in lines[:MAX_VALUE_LINES]:
        yield f"     {to_printable(line)}"
    if len(lines) > MAX_VALUE_LINES:
        yield f"     … {len(lines) - MAX_VALUE_LINES} more lines, which --json shows"


def answer_lines(answer: Mapping[str, Any], when: str) -> Iterator[str]:
    """Yield an answer, its author and its question; answers of older versions have no question."""
    name = f' ("{answer["name"]}")' if answer.get("name") else ""
    standing = ", in advance" if answer.get("standing") else ""
    content = answer["message"] if answer.get("message") is not None else answer.get("responses")
    number = f" {answer['number']}" if answer.get("number") else ""
    yield to_printable(f"answer{number} by {answer.get('by')}{name}{standing}, {when}: {format_value(content)}")
    question = answer.get("question")
    if question:
        yield to_printable(f"   to {_question_summary(question)}")


def _question_summary(question: QuestionFields) -> str:
    text = str(question.get("title") or question.get("text") or question.get("tool") or "")
    arguments = question.get("arguments")
    call = f" [{question.get('function') or question.get('tool')}({format_value(arguments)})]" if arguments else ""
    return format_value(" ".join(text.split())) + call


def answer_command_line(run_id: str, question: QuestionFields) -> str:
    """Build a command to copy, with … in place of each value; it has no control characters."""
    command = f"unattended runs answer {to_printable(run_id)} --question {question['number']}"
    if question["kind"] == "message":
        return f'{command} --message "…"'
    expected = question.get("keys") or (["choice"] if question.get("choices") else ["KEY"])
    tool, keys = to_printable(str(question["tool"])), [to_printable(key) for key in expected]
    if set(tool) & set(".=") or any("=" in key for key in keys):
        responses = json.dumps({tool: dict.fromkeys(keys, "…")}, ensure_ascii=False)
        return f"{command} --json-responses {shlex.quote(responses)}"
    return " ".join([command, *(f"--response {shlex.quote(f'{tool}.{key}')}=…" for key in keys)])


def waiting_text(numbers: Sequence[int]) -> str:
    """`question 1 waits`, `questions 1 and 3 wait`."""
    texts = [str(number) for number in numbers]
    if len(texts) == 1:
        return f"question {texts[0]} waits"
    return f"questions {', '.join(texts[:-1])} and {texts[-1]} wait"


def answer_result_text(number: int, waiting: Sequence[int]) -> str:
    """`has answer 1; question 2 waits for an answer`, `has answer 2, and continues`."""
    rest = f"; {waiting_text(waiting)} for an answer" if waiting else ", and continues"
    return f"has answer {number}{rest}"
