"""How long a chaos test is: short by default, long when UNATTENDED_TEST_LONG=1 says so, as `make chaos` does."""

import os
from typing import TypeVar

LONG = os.environ.get("UNATTENDED_TEST_LONG") == "1"

Value = TypeVar("Value")

SUMMARY: list[str] = []


def by_length(*, short: Value, long: Value) -> Value:
    return long if LONG else short


def add_summary_line(scenario: str, **numbers: object) -> None:
    """A line of the summary at the end."""
    SUMMARY.append(f"{scenario}: {', '.join(f'{name} {number}' for name, number in numbers.items())}")
