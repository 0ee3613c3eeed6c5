"""Notes of a local run: its waits, and its differences from a run on a worker."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from workflows.context.documents.document_access import DocumentWrite
from workflows.context.reads.persistent_states import PersistentState
from workflows.outcome import Outcome


def pause_note(attempt: int, outcome: Outcome, delay: timedelta | None) -> str:
    """`delay` is None for a scripted run, which does not wait."""
    ended = f"attempt {attempt} ended with {outcome.kind.value}: {outcome.reason}"
    if delay is None:
        return f"{ended}; a worker waits before the next one, a script does not"
    return f"{ended}; the next one begins in {delay.total_seconds():.1f} s"


def state_note(states: Sequence[PersistentState]) -> Iterator[str]:
    if states:
        names = ", ".join(sorted(state.state_key.variable for state in states))
        yield f"no state is kept here; a worker would keep {names} for later runs"


def write_note(writes: Sequence[DocumentWrite]) -> Iterator[str]:
    if writes:
        names = ", ".join(sorted({write.variable for write in writes}))
        yield f"no database is written here; a worker would write {names}"


def question_notes(questions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for number, question in enumerate(questions, 1):
        if question["kind"] == "message":
            yield "no person is here; on a worker the run goes on when `unattended runs answer` says something"
            continue
        choices = " or ".join(json.dumps(choice, ensure_ascii=False) for choice in question.get("choices", ()))
        keys = ", ".join(
            f'"{key}": {choices if choices and not nth else "…"}' for nth, key in enumerate(question.get("keys", ()))
        )
        yield f"question {number}: {_in_one_line(question)}"
        yield f'ui_responses would answer it: {{"{question["tool"]}": {{{keys or "…"}}}}}'


def _in_one_line(question: Mapping[str, Any]) -> str:
    """Formats the question and the call that asks it."""
    text = " ".join((question.get("title") or question["text"]).split())
    if question.get("function") is None:
        return text
    arguments = question["arguments"]
    shown = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    return f"{text} [{question['function']}({shown})]"
