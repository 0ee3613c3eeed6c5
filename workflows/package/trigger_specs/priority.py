"""The priority of a trigger's runs: a digit, of which 9 is the most urgent."""

from typing import Annotated

from pydantic import BeforeValidator, Field

MIN_PRIORITY, MAX_PRIORITY, DEFAULT_PRIORITY = 0, 9, 5


def _check_digit(value: object) -> object:
    """Not the number that a text or a yes might stand for: what an author meant by it is a guess."""
    if isinstance(value, bool) or not isinstance(value, int) or not MIN_PRIORITY <= value <= MAX_PRIORITY:
        raise ValueError(f"must be a whole number from {MIN_PRIORITY} to {MAX_PRIORITY}; {MAX_PRIORITY} is most urgent")
    return value


Priority = Annotated[int, Field(ge=MIN_PRIORITY, le=MAX_PRIORITY), BeforeValidator(_check_digit)]
