"""The lease and the shutdown of a local run: no other process can take it, and its process does not drain."""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from workers.store.run import Claim


class LocalLease:
    """Cancels the run on request, as the heartbeat of a worker does."""

    def __init__(self) -> None:
        self.is_finishing = False
        self._task: asyncio.Task[Any] | None = None
        self._cancelled_by: str | None = None

    @contextmanager
    def renew_while(self, claim: Claim) -> Iterator[None]:
        del claim
        self._task = asyncio.current_task()
        try:
            yield
        finally:
            self._task, self.is_finishing = None, False  # another attempt may follow

    def is_lost(self, claim: Claim) -> bool:
        del claim
        return False

    def cancelled_by(self, claim: Claim) -> str | None:
        del claim
        return self._cancelled_by

    def mark_finishing(self, claim: Claim) -> None:
        del claim
        self.is_finishing = True

    def cancel(self, *, by: str) -> bool:
        """Returns False if no run is in progress, or if it is already ending."""
        if self._task is None or self.is_finishing:
            return False
        self._cancelled_by = by
        self._task.cancel()
        return True


class NeverStops:
    def is_stopping(self) -> bool:
        return False

    def interruptible(self) -> AbstractContextManager[None]:
        return nullcontext()

    def seconds_left(self) -> float:
        return float("inf")
