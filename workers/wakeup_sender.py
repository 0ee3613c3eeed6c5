"""The interface to wake-ups, for code that makes runs ready."""

from typing import Protocol


class WakeupSender(Protocol):
    def send(self, run_id: str) -> None:
        """Notifies the workers of a run.

        Best effort: the reconciler repeats lost wake-ups.
        """
