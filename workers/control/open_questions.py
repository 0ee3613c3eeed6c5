"""Open questions: what a waiting run asks people, whichever version wrote it."""

from collections.abc import Mapping, Sequence
from typing import Any

from workers.store.run import RunState

Question = Mapping[str, Any]


def waiting_questions(run: Mapping[str, Any]) -> Sequence[Question]:
    """Returns the open questions by number.

    A run of an older version has at most one and no `questions`; it is numbered by the answers so far.
    """
    if run["state"] != RunState.NEEDS_HUMAN:
        return []
    if run.get("questions"):
        return list(run["questions"])
    one = run.get("question")
    return [{"number": len(run.get("answers") or ()) + 1, **one}] if one else []


def is_named(question: Question, name: int | str) -> bool:
    """Returns whether `name` is the number or the id of the question."""
    return name in (question.get("number"), question.get("id"))


def question_name(question: Question) -> int | str:
    """Returns the name that an answer uses: the id, which is bound to the displayed question.

    A question of an older version has only a number.
    """
    name: int | str = question.get("id") or question["number"]
    return name


def question_key(question: Question) -> str:
    """Returns the key under which one of the `choices` is the answer."""
    return next(iter(question.get("keys") or ()), "choice")
