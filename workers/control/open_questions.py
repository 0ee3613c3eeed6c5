"""Waiting questions: what a run asks people at present, whichever version of it wrote them."""

from collections.abc import Mapping, Sequence
from typing import Any

from workers.store.run import RunState

Question = Mapping[str, Any]


def waiting_questions(run: Mapping[str, Any]) -> Sequence[Question]:
    """By number. A run of an older version asks one at most, has no `questions`, and numbers it by its answers."""
    if run["state"] != RunState.NEEDS_HUMAN:
        return []
    if run.get("questions"):
        return list(run["questions"])
    one = run.get("question")
    return [{"number": len(run.get("answers") or ()) + 1, **one}] if one else []


def is_named(question: Question, name: int | str) -> bool:
    """`named`: its number or its id."""
    return name in (question.get("number"), question.get("id"))


def question_name(question: Question) -> int | str:
    """What an answer calls it: the id is bound to what was shown. A question of an older version has a number only."""
    name: int | str = question.get("id") or question["number"]
    return name


def question_key(question: Question) -> str:
    """The key under which one of the question's `choices` is the answer."""
    return next(iter(question.get("keys") or ()), "choice")
