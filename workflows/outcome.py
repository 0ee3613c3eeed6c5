"""Outcomes: the closed set of ways in which a conversation ends."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from workflows.context.values.storable_values import storable_text

MAX_TEXT_CHARACTERS = 2_000


class OutcomeKind(StrEnum):
    COMPLETED = "completed"
    MAX_TURNS = "max_turns"
    NO_TRANSITION = "no_transition"
    WORKFLOW_FAILED = "workflow_failed"
    TOOL_ERROR = "tool_error"
    PACKAGE_ERROR = "package_error"
    LOOP_DETECTED = "loop_detected"
    TIMEOUT = "timeout"
    BUDGET_EXHAUSTED = "budget_exhausted"
    MODEL_ERROR = "model_error"
    WORKER_LOST = "worker_lost"
    NEEDS_HUMAN = "needs_human"
    CANCELLED = "cancelled"
    HANDED_BACK = "handed_back"  # not an end: this worker shuts down, or a budget lets it wait


@dataclass(frozen=True, slots=True)
class OutcomeError:
    type: str
    message: str
    agent: str | None = None
    turn: int | None = None
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """`transient`: another attempt may end otherwise. `held_by`: the run is handed back, and waits for this limit.
    `stranded`: the chat ended after an agent none of whose conditions held in the run."""

    kind: OutcomeKind
    reason: str
    error: OutcomeError | None = None
    transient: bool = False
    retry_after_s: float | None = None
    held_by: str | None = None
    held_until: datetime | None = None
    stranded: bool = False

    @staticmethod
    def from_document(document: Mapping[str, Any]) -> "Outcome":
        error = document.get("error")
        kept = None if error is None else OutcomeError(**error)
        stranded = document.get("stranded", False)
        return Outcome(OutcomeKind(document["kind"]), document["reason"], kept, stranded=stranded)

    def with_texts(self, transform: Callable[[str], str]) -> "Outcome":
        """The same end in other words: its texts may be those of a package's exception."""
        error = None if self.error is None else replace(self.error, message=transform(self.error.message))
        return replace(self, reason=transform(self.reason), error=error)

    def as_document(self) -> dict[str, Any]:
        """What any store takes: an error's text may be anything, of any length."""
        error = None if self.error is None else asdict(self.error)
        if error is not None:
            error["message"] = _storable_text(error["message"])
            if error["tool"] is None:  # a worker of an older version knows no such field
                del error["tool"]
        document = {"kind": self.kind.value, "reason": _storable_text(self.reason), "error": error}
        return {**document, "stranded": True} if self.stranded else document  # absent from what older versions wrote


def _storable_text(text: str) -> str:
    cut = text if len(text) <= MAX_TEXT_CHARACTERS else f"{text[:MAX_TEXT_CHARACTERS]}… ({len(text)} characters)"
    return storable_text(cut)


CLASSIC_END_KINDS = frozenset({OutcomeKind.MAX_TURNS, OutcomeKind.NO_TRANSITION})


def is_success(outcome: Outcome, *, pattern: str) -> bool:
    """A classic chat simply ends when nobody is next or all turns are taken; an `ag2_network` has failed then."""
    ended_well = outcome.kind is OutcomeKind.COMPLETED or (
        outcome.kind in CLASSIC_END_KINDS and pattern != "ag2_network"
    )
    return ended_well and not outcome.transient
