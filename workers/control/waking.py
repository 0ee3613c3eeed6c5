"""Wake: what a change needs to tell the workers that a run is ready."""

from typing import Protocol


class Wake(Protocol):
    def send(self, run_id: str) -> None:
        """Best effort: the reconciler repeats what gets lost."""
