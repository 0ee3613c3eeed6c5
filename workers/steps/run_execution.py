"""The execution of a run under one owner: the state that the steps of the engine share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workers.steps.retry_policy import Finish, Requeue
from workers.steps.run_services import RunServices
from workers.steps.turn_record import NO_WRITES, PendingWrites
from workers.store.run import Claim, run_labels
from workflows.chat.chat_state import Conversation
from workflows.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Ending:
    """How the work on a run ended.

    `pending` is written in the same transaction as its success. `record` holds further fields of the run document.
    """

    decision: Finish | Requeue
    outcome: Outcome
    pending: PendingWrites = NO_WRITES
    record: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class RunExecution:
    """The state of one execution. `released` is the ending that the store has accepted."""

    claim: Claim
    services: RunServices
    chat: Conversation | None = None
    outcome: Outcome | None = None
    ending: Ending | None = None
    released: Ending | None = None

    @property
    def document(self) -> Mapping[str, Any]:
        return self.claim.document

    @property
    def labels(self) -> dict[str, Any]:
        return run_labels(self.claim.document)

    @property
    def open_chat(self) -> Conversation:
        if self.chat is None:
            raise RuntimeError("the package of this run is not loaded yet")
        return self.chat


class EndedEarlyError(Exception):
    """Ends the chat of a run before its next step, with this outcome."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome
