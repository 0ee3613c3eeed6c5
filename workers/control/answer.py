"""Answering: what a person says to a run that waits for one; then it is queued, and goes on where it stands.

One atomic update, so that of two answers at once one counts and the other is refused. An answer that is given again,
since its giver never heard of the first, is the same answer. `question` says which one is meant (`question.number` of
the run): a run may have asked the next one meanwhile, and must not take an old answer for it.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workers.control.changed import names, of_app
from workers.control.errors import RefusedError, RunNotFoundError
from workers.store.run import RunState
from workers.store.run_document import READY, Document, literal
from workers.store.run_store import RunStore
from workers.store.storable import NotStorableError, check_storable
from workers.store.transitions import moves
from workers.waking import Wake

log = logging.getLogger(__name__)

MAX_ANSWER = 256 * 1024  # bytes
MAX_ANSWERS = 2 * 1024 * 1024  # of one run, which keeps them all
MAX_BY = 200

# Never a context or an input: those may be megabytes.
_SEEN = ("app_id", "workflow", "state", "lease.token", "answers", "question", "cancel_requested")

Responses = Mapping[str, Mapping[str, Any]]


class UnfitAnswerError(ValueError):
    """Not what an answer looks like, whatever the run asks; the text names the field."""


@dataclass(frozen=True, slots=True)
class Answered:
    """`number`: the first answer of a run is 1. `repeated`: it was there already."""

    run_id: str
    number: int
    repeated: bool


async def answer(  # noqa: PLR0913 -- an answer has this many parts, most of which are left out
    store: RunStore,
    wake: Wake,
    run_id: str,
    *,
    by: str,
    message: str | None = None,
    responses: Responses | None = None,
    app_id: str | None = None,
    question: int | None = None,
) -> Answered:
    """UnfitAnswerError, RunNotFoundError, or RefusedError: the run asks nothing, or something else."""
    given = _given(by, message, responses)
    for _ in range(2):
        run = await store.runs.find_one(of_app(run_id, app_id), dict.fromkeys(_SEEN, 1))
        if run is None:
            raise RunNotFoundError(run_id)
        run["answers"] = run.get("answers") or []
        number = len(run["answers"]) + 1
        earlier = _same_as_before(run, given, question)
        if earlier is not None:
            return Answered(run_id, earlier, repeated=True)
        _refuse_unless_asked(run, given, number if question is None else question)
        if await _written(store, run, given):
            wake.send(run_id)
            log.info("run_answered", extra={**names(run, by), "number": number})
            return Answered(run_id, number, repeated=False)
    raise RefusedError(f"{run_id} changed while it was answered; look at it with `unattended runs show {run_id}`")


def _given(by: str, message: str | None, responses: Responses | None) -> Document:
    """What is kept of it, beside when."""
    if not by.strip() or len(by) > MAX_BY:
        raise UnfitAnswerError(f"by: say who answers, in at most {MAX_BY} characters")
    if message is None and not responses:
        raise UnfitAnswerError("an answer has a message, or responses for tools")
    if message is not None and not message.strip():
        raise UnfitAnswerError("message: it is empty")
    for tool, keys in (responses or {}).items():
        if not isinstance(keys, Mapping):
            raise UnfitAnswerError(f'responses: {tool}: write keys and values, such as {{"approved": true}}')
    given = {"by": by, "message": message, "responses": None if not responses else dict(responses)}
    try:
        size = sum(check_storable(value, path=name, any_key=True) for name, value in given.items())
    except NotStorableError as error:
        raise UnfitAnswerError(str(error)) from None
    if size > MAX_ANSWER:
        raise UnfitAnswerError(f"the answer is larger than {MAX_ANSWER // 1024} KB; give a reference to what is large")
    return {name: value for name, value in given.items() if value is not None}


def _same_as_before(run: Document, given: Document, question: int | None) -> int | None:
    """The number of the answer that this one repeats. Without a number that is the last one, while nothing is asked."""
    answers: Sequence[Document] = run["answers"]
    if question is None and run["state"] == RunState.NEEDS_HUMAN:
        return None
    number = len(answers) if question is None else question
    if not 1 <= number <= len(answers):
        return None
    kept = {name: value for name, value in answers[number - 1].items() if name not in {"at", "turn"}}
    return number if kept == given else None


def _refuse_unless_asked(run: Document, given: Document, number: int) -> None:
    run_id, answers = run["_id"], run["answers"]
    if 1 <= number <= len(answers):
        raise RefusedError(f"question {number} of {run_id} was answered by {answers[number - 1]['by']}")
    if run["state"] != RunState.NEEDS_HUMAN:
        raise RefusedError(f"{run_id} {instead(run)}")
    if number != len(answers) + 1:
        raise RefusedError(f"{run_id} has asked no question {number}; it waits for an answer to {len(answers) + 1}")
    if run.get("cancel_requested") is not None:
        raise RefusedError(f"{run_id} is to be cancelled, as {run['cancel_requested']['by']} wishes")
    refused = _unanswered(run.get("question") or {}, given)
    if refused is not None:
        raise RefusedError(f"{run_id} {refused}")
    if sum(check_storable(each, any_key=True) for each in _without_times([*answers, given])) > MAX_ANSWERS:
        raise RefusedError(f"{run_id} has more than {MAX_ANSWERS // 1024} KB of answers, and takes no more")


def _unanswered(question: Mapping[str, Any], given: Document) -> str | None:
    """Why this answer does not let the run go on: it would only ask again."""
    if question.get("kind") == "message" and "message" not in given:
        return "waits for what a user says: answer with a message"
    if question.get("kind") != "tool":
        return None
    names = [name for name in dict.fromkeys((question["tool"], question.get("function"))) if name]
    if "message" in given:
        return f"waits for the tool {names[0]}, which takes no message: answer with responses for {names[0]}"
    if not any(name in given["responses"] for name in names):
        return f"waits for {' or '.join(names)}, and gets responses for {', '.join(given['responses'])} only"
    return None


def _without_times(answers: Sequence[Document]) -> list[Document]:
    return [{name: value for name, value in each.items() if name != "at"} for each in answers]


_INSTEAD: Mapping[str, str] = {
    RunState.QUEUED: "asks nothing now: it is queued, and goes on when a worker takes it",
    RunState.RUNNING: "asks nothing now: it is running",
    RunState.PARKED: "asks nothing: it is parked, and can be replayed or discarded",
}


def instead(run: Mapping[str, Any]) -> str:
    """What a run does that asks nothing."""
    ended = f"asks nothing any more: it has ended as {run['state']}, and can be replayed"
    return _INSTEAD.get(run["state"], ended)


async def _written(store: RunStore, run: Document, given: Document) -> bool:
    """False when the run is no longer as it was read: each owner has another token, so a token knows one question."""
    asked = {
        "_id": run["_id"],
        "state": moves(RunState.NEEDS_HUMAN, RunState.QUEUED),
        "lease.token": run["lease"]["token"],
        "cancel_requested": None,
    }
    kept = {"at": "$$NOW", "turn": "$turn", **{name: literal(value) for name, value in given.items()}}
    in_progress = {"$mergeObjects": ["$progress", {"ended": None}]}
    change = {
        **READY,
        "state": RunState.QUEUED.value,
        "answers": {"$concatArrays": [{"$ifNull": ["$answers", []]}, [kept]]},
        # Nothing is kept before the first turn, and a chat that says it has ended would not go on.
        "progress": {"$cond": [{"$eq": [{"$type": "$progress"}, "object"]}, in_progress, "$progress"]},
        **dict.fromkeys(("question", "outcome", "usage", "finished_at", "not_before")),
        "wake_at": "$$NOW",
        "wakes": 0,
    }
    written = await store.runs.update_one(asked, [{"$set": change}])
    return written.matched_count == 1
