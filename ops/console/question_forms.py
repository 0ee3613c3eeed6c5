"""Questions of a run on its pages, and the answers that its forms send."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ops.console.console_context import Form
from ops.presenters.answer_inputs import MAX_NUMBER_DIGITS, MAX_QUESTION_ID_LENGTH, parse_answer_value
from triggers.gateway.http_problems import ProblemError
from triggers.gateway.request_body import parse_json
from workers.control.open_questions import is_named, question_key, question_name, waiting_questions

KEY_PREFIX = "key."  # of form fields that hold a value for a tool
RESPONSES_FIELD = "responses"
CHOICE_FIELD = "choice"

RunFields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class QuestionView:
    """One question as the templates show it.

    `name` is the form's value: the question's id, or its number if an older version asked. `function` asked with
    `arguments` from the model; `keys` become fields of the form and `choices` its buttons.
    """

    name: str
    number: int
    heading: str
    text: str
    agent: str | None
    turn: int
    is_message: bool
    tool: str
    function: str
    arguments: Any
    payload: Any
    choices: tuple[str, ...]
    keys: tuple[str, ...]


def question_views(run: RunFields) -> list[QuestionView]:
    """Return the questions that wait, ordered by number."""
    return [_question_view(question) for question in waiting_questions(run)]


def _question_view(question: Mapping[str, Any]) -> QuestionView:
    text, title = str(question.get("text") or ""), str(question.get("title") or "")
    agent, tool = question.get("agent"), str(question.get("tool") or "tool")
    is_message = question.get("kind") != "tool"
    choices = tuple(question.get("choices") or ())
    choice_key = question_key(question) if choices else None
    return QuestionView(
        name=str(question_name(question)),
        number=question["number"],
        heading=title or (f"{agent or 'The run'} asks" if is_message or not text else text),
        text=text if is_message else "",
        agent=agent,
        turn=question.get("turn") or 0,
        is_message=is_message,
        tool=tool,
        function=str(question.get("function") or tool),
        arguments=question.get("arguments"),
        payload=question.get("payload"),
        choices=choices,
        keys=tuple(key for key in question.get("keys") or () if key != choice_key),
    )


def parse_answer(run: RunFields, form: Form) -> dict[str, Any]:
    """Parse the question that the form names, and its `message` or `responses`."""
    name = _parse_question(form.get("question", ""))
    if "message" in form:
        return {"question": name, "message": form["message"]}
    question = next((candidate for candidate in _known_questions(run) if is_named(candidate, name)), {})
    tool = str(question.get("tool") or "tool")
    return {"question": name, "responses": {tool: _parse_responses(question, form)}}


def _parse_question(text: str) -> int | str:
    if text.isascii() and text.isdigit() and len(text) <= MAX_NUMBER_DIGITS:
        return int(text)
    if not text or len(text) > MAX_QUESTION_ID_LENGTH or text.isdigit():
        raise ProblemError(422, "question: the form names no question of this run; open the page again")
    return text


def _known_questions(run: RunFields) -> Iterator[Mapping[str, Any]]:
    """Yield also answered questions, so that a form that is sent twice repeats its answer."""
    yield from waiting_questions(run)
    yield from answered_questions(run.get("answers") or ())


def answered_questions(answers: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for answer in answers:
        if answer.get("question"):
            yield {**answer["question"], "number": answer.get("number")}


def _parse_responses(question: Mapping[str, Any], form: Form) -> Mapping[str, Any]:
    """Read a field for each awaited key and the pressed button; without either, one field of JSON."""
    if RESPONSES_FIELD in form:
        responses = parse_json_object(form[RESPONSES_FIELD])
        if responses is None:
            raise ProblemError(422, 'the answer: write keys and values as JSON, such as {"approved": true}')
        return responses
    keys = {
        name.removeprefix(KEY_PREFIX): parse_answer_value(text)
        for name, text in form.items()
        if name.startswith(KEY_PREFIX)
    }
    if CHOICE_FIELD in form:
        keys[question_key(question)] = form[CHOICE_FIELD]
    return keys


def parse_json_object(text: str) -> dict[str, Any] | None:
    """Return None for a text that is no JSON object."""
    try:
        value = parse_json(text.encode())
    except ProblemError:
        return None
    return value if isinstance(value, dict) else None
