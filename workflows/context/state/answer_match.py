"""Answer values: which answers of a person or a tool fire a transition."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workflows.context.values.type_coercion import coerce_or_keep
from workflows.context.values.value_types import ValueType, is_same_value


@dataclass(frozen=True, slots=True)
class AnswerMatch:
    """A condition on an answer.

    `values` are the answers that fire, None any. In a transition without a `match`, `declared_type` is the variable's
    type, to which answers are converted, and `takes_forms`: a mapping or a list fires it too."""

    values: tuple[Any, ...] | None = None
    declared_type: ValueType | None = None
    takes_forms: bool = False

    @property
    def is_implied(self) -> bool:
        """Returns whether the author wrote no `match`, so that the value `to` fires."""
        return self.declared_type is not None

    def matches(self, answer: Any) -> bool:
        if self.values is None:
            return True
        if self.takes_forms and isinstance(answer, Mapping | list | tuple):
            return True
        converted = answer if self.declared_type is None else coerce_or_keep(answer, self.declared_type)
        return any(_are_equal(answer, value) or _are_equal(converted, value) for value in self.values)

    def overlaps(self, other: "AnswerMatch") -> bool:
        """Checks whether one answer can fit both."""
        if self.values is None or other.values is None:
            return True
        return any(map(self.matches, other.values)) or any(map(other.matches, self.values))


def _are_equal(answer: Any, expected: Any) -> bool:
    """Compares text trimmed and without case.

    YAML reads `yes` as true, and a person may answer either."""
    if isinstance(expected, bool) and isinstance(answer, str):
        answer = coerce_or_keep(answer, "boolean")
    return is_same_value(_normalize_text(answer), _normalize_text(expected))


def _normalize_text(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value
