"""Questions of a run on its pages: what is asked, as a person reads it, and what a form answers."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ops.console.context import Form
from triggers.gateway.http_problems import ProblemError
from triggers.gateway.request_body import parse_json
from workers.control.questions import is_meant, question_key, question_name, waiting_questions

KEY_PREFIX = "key."  # in the names of fields: of what a tool gets
RESPONSES_FIELD = "responses"
CHOICE_FIELD = "choice"
MAX_NUMBER_DIGITS = 9
MAX_QUESTION_ID_LENGTH = 200  # of a question's id

RunFields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class QuestionView:
    """`name` goes into the form: the question's id, or the number where an older version asked. `called`: the function
    that asks, and `arguments` what the model gave it; `keys` are fields of the form, beside `choices` as buttons."""

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
    """Those that wait, by number."""
    return [_question_view(question) for question in waiting_questions(run)]


def _question_view(question: Mapping[str, Any]) -> QuestionView:
    text, title = str(question.get("text") or ""), str(question.get("title") or "")
    agent, tool = question.get("agent"), str(question.get("tool") or "tool")
    is_message = question.get("kind") != "tool"
    choices = tuple(question.get("choices") or ())
    used = question_key(question) if choices else None
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
        keys=tuple(key for key in question.get("keys") or () if key != used),
    )


def parse_answer(run: RunFields, form: Form) -> dict[str, Any]:
    """The question that the form names, and `message` or `responses` for it and no other."""
    named = _parse_question(form.get("question", ""))
    if "message" in form:
        return {"question": named, "message": form["message"]}
    question = next((each for each in _known_questions(run) if is_meant(each, named)), {})
    tool = str(question.get("tool") or "tool")
    return {"question": named, "responses": {tool: _parse_responses(question, form)}}


def _parse_question(text: str) -> int | str:
    if text.isascii() and text.isdigit() and len(text) <= MAX_NUMBER_DIGITS:
        return int(text)
    if not text or len(text) > MAX_QUESTION_ID_LENGTH or text.isdigit():
        raise ProblemError(422, "question: the form names no question of this run; open the page again")
    return text


def _known_questions(run: RunFields) -> Iterator[Mapping[str, Any]]:
    """Also those that have an answer: a form that is sent twice says the same again."""
    yield from waiting_questions(run)
    yield from answered_questions(run.get("answers") or ())


def answered_questions(answers: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for answer in answers:
        if answer.get("question"):
            yield {**answer["question"], "number": answer.get("number")}


def _parse_responses(question: Mapping[str, Any], form: Form) -> Mapping[str, Any]:
    """A field for each key that the package waits for, the button that was pressed, or JSON where there is neither."""
    if RESPONSES_FIELD in form:
        try:
            whole = parse_json(form[RESPONSES_FIELD].encode())
        except ProblemError:
            whole = None
        if not isinstance(whole, dict):
            raise ProblemError(422, 'the answer: write keys and values as JSON, such as {"approved": true}')
        return whole
    keys = {
        name.removeprefix(KEY_PREFIX): _parse_value(text) for name, text in form.items() if name.startswith(KEY_PREFIX)
    }
    if CHOICE_FIELD in form:
        keys[question_key(question)] = form[CHOICE_FIELD]
    return keys


def _parse_value(text: str) -> Any:
    """JSON where it is JSON, else text, as `unattended runs answer --response` takes it."""
    try:
        return parse_json(text.encode())
    except ProblemError:
        return text
