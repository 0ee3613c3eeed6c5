"""The priority of a trigger's runs: a digit, of which 9 is the most urgent."""

from typing import Annotated

from pydantic import BeforeValidator, Field

LEAST_URGENT, MOST_URGENT, USUAL = 0, 9, 5


def _check_digit(value: object) -> object:
    """Not the number that a text or a yes might stand for: what an author meant by it is a guess."""
    if isinstance(value, bool) or not isinstance(value, int) or not LEAST_URGENT <= value <= MOST_URGENT:
        raise ValueError(f"must be a whole number from {LEAST_URGENT} to {MOST_URGENT}; {MOST_URGENT} is most urgent")
    return value


Priority = Annotated[int, Field(ge=LEAST_URGENT, le=MOST_URGENT), BeforeValidator(_check_digit)]
