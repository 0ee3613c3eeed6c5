"""The result of one check: a level, what was found, and advice."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    level: Level
    found: str
    advice: str = ""


def has_problem(checks: Sequence[Check]) -> bool:
    return any(check.level == "problem" for check in checks)


def error_line(error: BaseException) -> str:
    """Format a foreign exception as one line that fits a table."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:300]}…"
