"""Outcomes: the closed set of kinds in which a chat ends, with reason and error."""

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
    HANDED_BACK = "handed_back"  # not an end: the worker shuts down, or a budget holds the run


@dataclass(frozen=True, slots=True)
class OutcomeError:
    type: str
    message: str
    agent: str | None = None
    turn: int | None = None
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a chat ended.

    `transient`: another attempt may succeed. `held_by`: the run is handed back and waits for this limit.
    `stranded`: the last agent has conditions, and none of them held.
    """

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
        outcome_error = None if error is None else OutcomeError(**error)
        stranded = document.get("stranded", False)
        return Outcome(OutcomeKind(document["kind"]), document["reason"], outcome_error, stranded=stranded)

    def with_texts(self, transform: Callable[[str], str]) -> "Outcome":
        """Returns the outcome with transformed texts.

        They may come from a package's exception.
        """
        error = None if self.error is None else replace(self.error, message=transform(self.error.message))
        return replace(self, reason=transform(self.reason), error=error)

    def as_document(self) -> dict[str, Any]:
        """Returns a document that any store accepts.

        Error texts are made storable and cut.
        """
        error = None if self.error is None else asdict(self.error)
        if error is not None:
            error["message"] = _storable_text(error["message"])
            if error["tool"] is None:  # workers of an older version do not accept this field
                del error["tool"]
        document = {"kind": self.kind.value, "reason": _storable_text(self.reason), "error": error}
        return {**document, "stranded": True} if self.stranded else document  # older versions did not write this field


def _storable_text(text: str) -> str:
    cut = text if len(text) <= MAX_TEXT_CHARACTERS else f"{text[:MAX_TEXT_CHARACTERS]}… ({len(text)} characters)"
    return storable_text(cut)


CLASSIC_END_KINDS = frozenset({OutcomeKind.MAX_TURNS, OutcomeKind.NO_TRANSITION})


def is_success(outcome: Outcome, *, pattern: str) -> bool:
    """Decides whether an outcome is a success.

    A chat without a next speaker, or at its maximum of turns, succeeds in classic patterns and fails in `ag2_network`.
    """
    ended_well = outcome.kind is OutcomeKind.COMPLETED or (
        outcome.kind in CLASSIC_END_KINDS and pattern != "ag2_network"
    )
    return ended_well and not outcome.transient
