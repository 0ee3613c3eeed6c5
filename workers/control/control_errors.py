"""What is said to people when a run cannot be changed as they ask."""


class RunNotFoundError(LookupError):
    """No such run, or none of this app."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"there is no run {run_id}")
        self.run_id = run_id


class RefusedError(Exception):
    """A run in this state does not take it; the text says why, and what it takes instead."""
