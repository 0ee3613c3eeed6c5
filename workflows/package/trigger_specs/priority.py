"""The priority of a trigger's runs: a digit; 9 is most urgent."""

from typing import Annotated

from pydantic import BeforeValidator, Field

MIN_PRIORITY, MAX_PRIORITY, DEFAULT_PRIORITY = 0, 9, 5


def _check_digit(value: object) -> object:
    """Accepts whole numbers only: converting a text or a boolean would be a guess."""
    if isinstance(value, bool) or not isinstance(value, int) or not MIN_PRIORITY <= value <= MAX_PRIORITY:
        raise ValueError(f"must be a whole number from {MIN_PRIORITY} to {MAX_PRIORITY}; {MAX_PRIORITY} is most urgent")
    return value


Priority = Annotated[int, Field(ge=MIN_PRIORITY, le=MAX_PRIORITY), BeforeValidator(_check_digit)]
