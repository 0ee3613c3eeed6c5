"""Missing values: why a variable has none, and what a run does about all of them together."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

log = logging.getLogger(__name__)


class ContextUnavailableError(Exception):
    """A source did not answer in time. Another attempt may find it well; going on without would be a guess."""


class ContextError(Exception):
    """A required value is missing: the run fails before any model call. The text names variable and source."""


class NoValueError(Exception):
    """A source gives no value. `passing`: another attempt may find one. The text never holds a value."""

    def __init__(self, reason: str, *, is_transient: bool = False) -> None:
        super().__init__(reason)
        self.is_transient = is_transient


@dataclass(frozen=True, slots=True)
class MissingValue:
    name: str
    source: str
    reason: str
    is_needed: bool
    is_transient: bool = False

    def __str__(self) -> str:
        return f"{self.name} from {self.source}: {self.reason}"


def raise_for_missing(missing: Iterable[MissingValue], *, run_id: str) -> None:
    """Says all that is missing. Needed values end the run here, for good unless all of them may come back."""
    needed = []
    for each in missing:
        if each.is_needed:
            needed.append(each)
        else:
            extra = {"run_id": run_id, "variable": each.name, "source": each.source, "reason": each.reason}
            log.warning("context_value_missing", extra=extra)
    if needed:
        text = "; ".join(map(str, needed))
        raise ContextUnavailableError(text) if all(each.is_transient for each in needed) else ContextError(text)
