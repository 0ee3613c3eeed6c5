"""Missing values: why a variable has none, and their effect on the run."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

log = logging.getLogger(__name__)


class ContextUnavailableError(Exception):
    """A source did not answer in time. Another attempt may succeed; a guess would not."""


class ContextError(Exception):
    """A required value is missing.

    The run fails before any model call. The text names the variable and the source."""


class NoValueError(Exception):
    """A source gives no value.

    `is_transient`: another attempt may find one. The text never holds a value."""

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
    """Reports all missing values, and raises for needed ones.

    The error is permanent unless all of them are transient."""
    needed = []
    for missing_value in missing:
        if missing_value.is_needed:
            needed.append(missing_value)
        else:
            extra = {
                "run_id": run_id,
                "variable": missing_value.name,
                "source": missing_value.source,
                "reason": missing_value.reason,
            }
            log.warning("context_value_missing", extra=extra)
    if needed:
        text = "; ".join(map(str, needed))
        raise (
            ContextUnavailableError(text)
            if all(missing_value.is_transient for missing_value in needed)
            else ContextError(text)
        )
