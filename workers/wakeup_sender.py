"""Waking: what those who make a run ready need to tell the workers."""

from typing import Protocol


class WakeupSender(Protocol):
    def send(self, run_id: str) -> None:
        """Best effort: the reconciler repeats what gets lost."""
