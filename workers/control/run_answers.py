"""Answers of people to runs that wait for one. The last answer queues the run.

An answer names its question, by number or id, and is stored with it: the run may ask the next question meanwhile, and
must not take an old answer for that one. Each answer is one atomic update, so of two concurrent answers to one question
one is stored and the other is refused. An answer that is sent again, because its response was lost, is accepted as the
same one.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workers.control.change_result import RefusedError, RunNotFoundError, log_labels
from workers.control.open_questions import is_named, waiting_questions
from workers.store.operator_writes import RunChanges
from workers.store.run import RunState
from workers.store.run_document import Document
from workers.store.run_reads import RunReads
from workers.store.run_store import RunStore
from workers.store.storable import NotStorableError, check_storable
from workers.wakeup_sender import WakeupSender

log = logging.getLogger(__name__)

MAX_ANSWER = 256 * 1024  # bytes
MAX_ANSWERS = 2 * 1024 * 1024  # of a run, which keeps them all
MAX_BY = 200
MAX_QUESTIONS = 20  # in a turn, see `workflows.chat.questions.call_questions`
MAX_SHOWN = 40  # of the name of an unknown question

# Without context and input, which may be megabytes.
_READ_FIELDS = ("app_id", "workflow", "state", "lease.token", "answers", "question", "questions", "cancel_requested")

_ANSWER_FIELDS = ("by", "name", "message", "responses")

Responses = Mapping[str, Mapping[str, Any]]


class InvalidAnswerError(ValueError):
    """Not a valid answer to any question; the text names the field."""


@dataclass(frozen=True, slots=True)
class AnswerResult:
    """The result of an answer to question `number`.

    `repeated`: the answer was stored already. `waiting`: the numbers of the questions that are still open; without any,
    the run goes on.
    """

    run_id: str
    number: int
    repeated: bool
    waiting: tuple[int, ...] = ()


async def submit_answer(  # noqa: PLR0913 -- an answer has this many parts, most of which are left out
    store: RunStore,
    wake: WakeupSender,
    run_id: str,
    *,
    question: int | str,
    by: str,
    name: str | None = None,
    message: str | None = None,
    responses: Responses | None = None,
    app_id: str | None = None,
) -> AnswerResult:
    """Stores the answer of a person, and queues the run if it was the last one.

    `by` is the authenticated user, `name` the name that the caller claims. Raises InvalidAnswerError,
    RunNotFoundError, or RefusedError if the run has no such question.
    """
    answer = _check_answer(by, name, message, responses)
    for _ in range(MAX_QUESTIONS + 1):  # answers to other questions of the run may arrive in between
        run = await RunReads(store).find_fields(run_id, _READ_FIELDS, app_id=app_id)
        if run is None:
            raise RunNotFoundError(run_id)
        run["answers"], waiting = run.get("answers") or [], list(waiting_questions(run))
        earlier = _earlier_answer(run, question)
        if earlier is not None:
            number = _check_repeated(run, earlier, answer)
            return AnswerResult(run_id, number, repeated=True, waiting=_numbers(waiting))
        open_question = _find_question(run, waiting, question)
        _refuse_invalid(run, open_question, answer)
        remaining = [entry for entry in waiting if entry["number"] != open_question["number"]]
        if await RunChanges(store).add_answer(run, open_question, answer, remaining=remaining):
            if not remaining:
                wake.send(run_id)
            log.info(
                "run_answered",
                extra={**log_labels(run, by), "number": open_question["number"], "waiting": len(remaining)},
            )
            return AnswerResult(run_id, open_question["number"], repeated=False, waiting=_numbers(remaining))
    raise RefusedError(f"{run_id} changed while it was answered; look at it with `unattended runs show {run_id}`")


def _numbers(questions: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
    return tuple(question["number"] for question in questions)


def _check_answer(by: str, name: str | None, message: str | None, responses: Responses | None) -> Document:
    """Returns the fields of the answer to store, without its time and question."""
    if not by.strip() or len(by) > MAX_BY or (name is not None and (not name.strip() or len(name) > MAX_BY)):
        raise InvalidAnswerError(f"by: say who answers, in at most {MAX_BY} characters")
    if message is None and not responses:
        raise InvalidAnswerError("an answer has a message, or responses for tools")
    if message is not None and not message.strip():
        raise InvalidAnswerError("message: it is empty")
    for tool, keys in (responses or {}).items():
        if not isinstance(keys, Mapping):
            raise InvalidAnswerError(f'responses: {tool}: write keys and values, such as {{"approved": true}}')
    copied = None if not responses else dict(responses)
    answer = {"by": by, "name": name, "message": message, "responses": copied}
    try:
        size = sum(check_storable(value, path=field, any_key=True) for field, value in answer.items())
    except NotStorableError as error:
        raise InvalidAnswerError(str(error)) from None
    if size > MAX_ANSWER:
        raise InvalidAnswerError(
            f"the answer is larger than {MAX_ANSWER // 1024} KB; give a reference to what is large"
        )
    return {field: value for field, value in answer.items() if value is not None}


def _earlier_answer(run: Document, question: int | str) -> Document | None:
    """Returns the stored answer to this question.

    Answers of an older version are numbered by their order.
    """
    by_people = (answer for answer in run["answers"] if not answer.get("standing"))
    for order, answer in enumerate(by_people, start=1):
        if question in (answer.get("number", order), (answer.get("question") or {}).get("id")):
            return {"number": order, **answer}
    return None


def _check_repeated(run: Document, earlier: Document, answer: Document) -> int:
    """Returns the number of the question whose answer this one repeats.

    Raises RefusedError if the stored answer differs.
    """
    number: int = earlier["number"]
    if {name: earlier[name] for name in _ANSWER_FIELDS if name in earlier} != answer:
        raise RefusedError(f"question {number} of {run['_id']} was answered by {earlier['by']}")
    return number


def _find_question(run: Document, waiting: Sequence[Mapping[str, Any]], question: int | str) -> Mapping[str, Any]:
    if run["state"] != RunState.NEEDS_HUMAN:
        raise RefusedError(f"{run['_id']} {describe_state(run)}")
    if not waiting and question == len(run["answers"]) + 1:
        return {"number": question, "kind": "unknown"}  # an early version stored no question
    found = next((candidate for candidate in waiting if is_named(candidate, question)), None)
    if found is None:
        numbers = ", ".join(map(str, _numbers(waiting)))
        shown = str(question)[:MAX_SHOWN]
        raise RefusedError(f"{run['_id']} has asked no question {shown}; it waits for an answer to {numbers}")
    return found


def _refuse_invalid(run: Document, question: Mapping[str, Any], answer: Document) -> None:
    run_id, answers = run["_id"], run["answers"]
    if run.get("cancel_requested") is not None:
        raise RefusedError(f"{run_id} is to be cancelled, as {run['cancel_requested']['by']} wishes")
    refused = _find_mismatch(question, answer)
    if refused is not None:
        raise RefusedError(f"{run_id} {refused}")
    earlier = [
        {name: entry[name] for name in _ANSWER_FIELDS if name in entry}
        for entry in answers
        if not entry.get("standing")
    ]
    if sum(check_storable(entry, any_key=True) for entry in [*earlier, answer]) > MAX_ANSWERS:
        raise RefusedError(f"{run_id} has more than {MAX_ANSWERS // 1024} KB of answers, and takes no more")


def _find_mismatch(question: Mapping[str, Any], answer: Document) -> str | None:
    """Returns why this is no answer to this question: the run would ask again."""
    if question.get("kind") == "message" and "message" not in answer:
        return "waits for what a user says: answer with a message"
    if question.get("kind") != "tool":
        return None
    names = [name for name in dict.fromkeys((question["tool"], question.get("function"))) if name]
    if "message" in answer:
        return f"waits for the tool {names[0]}, which takes no message: answer with responses for {names[0]}"
    if len(answer["responses"]) != 1 or not answer["responses"].keys() <= set(names):
        return f"waits for {' or '.join(names)}, and gets responses for {', '.join(answer['responses'])}"
    [response] = answer["responses"].values()
    return _find_choice_mismatch(question, response)


def _find_choice_mismatch(question: Mapping[str, Any], response: Mapping[str, Any]) -> str | None:
    choices = question.get("choices")
    if not choices:
        return None
    key = question["keys"][0]
    if response.get(key) in choices:
        return None
    return f"waits for a choice: answer {key} with {' or '.join(choices)}"


_STATE_TEXTS: Mapping[str, str] = {
    RunState.QUEUED: "asks nothing now: it is queued, and goes on when a worker takes it",
    RunState.RUNNING: "asks nothing now: it is running",
    RunState.PARKED: "asks nothing: it is parked, and can be replayed or discarded",
}


def describe_state(run: Mapping[str, Any]) -> str:
    """Describes the state of a run without questions."""
    ended = f"asks nothing any more: it has ended as {run['state']}, and can be replayed"
    return _STATE_TEXTS.get(run["state"], ended)
