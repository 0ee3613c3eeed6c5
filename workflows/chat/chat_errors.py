"""Errors of a chat, each with its outcome and whether another attempt can help."""

from dataclasses import replace
from datetime import datetime

from workflows.outcome import Outcome, OutcomeError, OutcomeKind

BUDGET_BUSY_RETRY_S = 3.0
MAX_REASON_CHARACTERS = 1_000  # of the text of a failed tool or step


class ChatError(Exception):
    kind = OutcomeKind.PACKAGE_ERROR

    def outcome(self, *, agent: str | None = None, turn: int | None = None) -> Outcome:
        error = OutcomeError(type(self).__name__, str(self), agent=agent, turn=turn)
        return Outcome(self.kind, str(self), error)


class PackageDefect(ChatError):  # noqa: N818 -- names the thing at fault, reads better in a run's record
    """The package asks for something that cannot be built."""


class PackageChanged(ChatError):  # noqa: N818 -- not a fault; the caller reads the package again
    """The files were edited between reading the package and importing its tools."""


class PackageSlow(ChatError):  # noqa: N818 -- names the thing at fault, reads better in a run's record
    """The files are still being imported. Another attempt may find them done."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s

    def outcome(self, *, agent: str | None = None, turn: int | None = None) -> Outcome:
        outcome = super().outcome(agent=agent, turn=turn)
        return replace(outcome, transient=True, retry_after_s=self.retry_after_s)


class LimitReached(ChatError):  # noqa: N818 -- not a fault of the code but a guard doing its work
    """A limit on calls is reached, or the chat repeats itself."""

    kind = OutcomeKind.LOOP_DETECTED


class BudgetExhausted(ChatError):  # noqa: N818 -- not a fault of the code but a guard doing its work
    """The tokens or the money of this run, or of its app, are spent."""

    kind = OutcomeKind.BUDGET_EXHAUSTED


class BudgetHeld(ChatError):  # noqa: N818 -- not a fault: the run waits, and loses the turn it is in
    """Like BudgetExhausted, but the run waits until the budget has money again."""

    kind = OutcomeKind.HANDED_BACK

    def __init__(self, message: str, *, held_by: str, until: datetime | None) -> None:
        super().__init__(message)
        self.held_by = held_by
        self.until = until

    def outcome(self, *, agent: str | None = None, turn: int | None = None) -> Outcome:
        outcome = super().outcome(agent=agent, turn=turn)
        return replace(outcome, held_by=self.held_by, held_until=self.until)


class BudgetBusy(ChatError):  # noqa: N818 -- not a fault: other calls hold what is left, for now
    kind = OutcomeKind.HANDED_BACK

    def outcome(self, *, agent: str | None = None, turn: int | None = None) -> Outcome:
        return replace(super().outcome(agent=agent, turn=turn), retry_after_s=BUDGET_BUSY_RETRY_S)


class NeedsHuman(ChatError):  # noqa: N818 -- not a fault: the chat waits for a person
    kind = OutcomeKind.NEEDS_HUMAN


class UnstableQuestion(ChatError):  # noqa: N818 -- names the thing at fault, reads better in a run's record
    """A call repeats a question in other words each time, so no answer can fit it."""

    kind = OutcomeKind.TOOL_ERROR

    def outcome(self, *, agent: str | None = None, turn: int | None = None) -> Outcome:
        error = OutcomeError("unstable_question", str(self), agent=agent, turn=turn)
        return Outcome(self.kind, str(self), error)


class StepFailed(ChatError):  # noqa: N818 -- names what failed, reads better in a run's record
    """A hook, lifecycle tool or automatic tool failed; no model sees the error."""

    kind = OutcomeKind.TOOL_ERROR

    def __init__(self, message: str, *, tool: str | None = None) -> None:
        super().__init__(message)
        self.tool = tool

    def outcome(self, *, agent: str | None = None, turn: int | None = None) -> Outcome:
        error = OutcomeError(type(self).__name__, str(self), agent=agent, turn=turn, tool=self.tool)
        return Outcome(self.kind, str(self), error)


class ToolFailed(StepFailed):
    """A model called a tool whose package says `on_error: fail`."""


class ModelError(ChatError):
    """A model call failed. Transient ones (429, 5xx, network) may be tried again."""

    kind = OutcomeKind.MODEL_ERROR

    def __init__(self, message: str, *, transient: bool, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.transient = transient
        self.retry_after_s = retry_after_s

    def outcome(self, *, agent: str | None = None, turn: int | None = None) -> Outcome:
        error = OutcomeError(type(self).__name__, str(self), agent=agent, turn=turn)
        return Outcome(self.kind, str(self), error, transient=self.transient, retry_after_s=self.retry_after_s)


class BudgetUnknown(ModelError):  # noqa: N818 -- not a fault of the model but a guard that fails closed
    """The budget's state is unknown, so the call is not made."""

    def __init__(self, message: str) -> None:
        super().__init__(message, transient=True)
