"""Answer match: which answers of a person or a tool fire a transition."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workflows.context.fitting import fitted
from workflows.context.value_types import ValueType, same


@dataclass(frozen=True, slots=True)
class AnswerMatch:
    """`values` are the answers that fire, None any. Of a transition without a `match`, `declared` is the type of its
    variable, which answers are read as, and `takes_forms` says whether a mapping or a list fires it too."""

    values: tuple[Any, ...] | None = None
    declared: ValueType | None = None
    takes_forms: bool = False

    @property
    def is_implied(self) -> bool:
        """Whether the author wrote none, so that `to` is what fires."""
        return self.declared is not None

    def fits(self, answer: Any) -> bool:
        if self.values is None:
            return True
        if self.takes_forms and isinstance(answer, Mapping | list | tuple):
            return True
        read = answer if self.declared is None else fitted(answer, self.declared)
        return any(_equal(answer, each) or _equal(read, each) for each in self.values)

    def overlaps(self, other: "AnswerMatch") -> bool:
        """Whether one answer can fit both."""
        if self.values is None or other.values is None:
            return True
        return any(map(self.fits, other.values)) or any(map(other.fits, self.values))


def _equal(answer: Any, expected: Any) -> bool:
    """Text is compared trimmed and without case. YAML reads `yes` as true, and a person may answer either."""
    if isinstance(expected, bool) and isinstance(answer, str):
        answer = fitted(answer, "boolean")
    return same(_plain(answer), _plain(expected))


def _plain(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value
