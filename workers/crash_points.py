"""Crash points: named steps of a run at which a process may die without any loss.

In the product they do nothing. The chaos tests start processes that kill themselves at one of them.
"""

from collections.abc import Callable
from typing import Literal

CrashPoint = Literal[
    "accepting",
    "inserted",
    "published",
    "woken",
    "claimed",
    "asking",
    "answered",
    "recorded",
    "open turn kept",
    "turn taken",
    "turn written",
    "documents written",
    "turn committed",
    "finishing",
    "finished",
]

_on_crash_point: Callable[[CrashPoint], None] | None = None


def crash_point(name: CrashPoint) -> None:
    if _on_crash_point is not None:
        _on_crash_point(name)


def watch_crash_points(on_crash_point: Callable[[CrashPoint], None]) -> None:
    """Sets the observer of this process, for tests."""
    global _on_crash_point  # noqa: PLW0603 -- one observer for the whole process, set before it starts
    _on_crash_point = on_crash_point
