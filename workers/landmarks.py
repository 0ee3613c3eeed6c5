"""Landmarks: the named steps on a run's way at which a process may die, and after which nothing may be lost.

In the product they do nothing. The chaos tests start processes that kill themselves at one of them.
"""

from collections.abc import Callable
from typing import Literal

Landmark = Literal[
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

_on_passing: Callable[[Landmark], None] | None = None


def passed(landmark: Landmark) -> None:
    if _on_passing is not None:
        _on_passing(landmark)


def watch_landmarks(on_passing: Callable[[Landmark], None]) -> None:
    """For tests, once per process."""
    global _on_passing  # noqa: PLW0603 -- one observer for the whole process, set before it starts
    _on_passing = on_passing
