"""Incidents: what went wrong in the package's own code while the chat went on, kept for the run's record."""

import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from workflows.context.storable_values import storable

MAX_TRACEBACK = 8_000
MAX_MESSAGE = 500
MAX_KEPT = 50  # of a turn, or of a run outside of its turns
_LONGEST = 1_000_000


@dataclass(frozen=True, slots=True)
class Incident:
    """`where` names the step: `tool lookup`, `after_chat report.py:send`."""

    where: str
    type: str
    message: str
    traceback: str
    agent: str | None = None
    turn: int | None = None

    def kept(self, show: Callable[[str], str]) -> "Incident":
        """As a record holds it: without what `show` hides, short, and of whole characters."""
        lines = storable(show(self.traceback))
        shown = lines if len(lines) <= MAX_TRACEBACK else f"… {lines[-MAX_TRACEBACK:]}"  # the end says what happened
        message = storable(show(self.message))[:MAX_MESSAGE]
        return replace(self, where=show(self.where), type=storable(show(self.type)), message=message, traceback=shown)

    def as_document(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_document(document: Mapping[str, Any]) -> "Incident":
        return Incident(**{name: document.get(name) for name in Incident.__slots__})  # type: ignore[arg-type]  # as kept


def incident_of(error: BaseException, *, where: str, agent: str | None = None, turn: int | None = None) -> Incident:
    """Whole, or nearly: whoever keeps it takes hidden values out before anything is cut."""
    lines = "".join(traceback.format_exception(error))
    message = words_of(error)
    return Incident(where, type(error).__name__, message[:_LONGEST], lines[-_LONGEST:], agent, turn)


def words_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 -- the package's error may be broken itself, and raise anything
        return "(its text cannot be read)"
