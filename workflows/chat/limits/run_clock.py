"""The wall clock of a run: counts work, not waiting for a retry or a worker."""

import asyncio
import time
from dataclasses import dataclass, field

TIMEOUT_REASON = "the run's wall-clock limit is reached"


@dataclass(frozen=True, slots=True)
class RunClock:
    limit_s: float
    earlier_s: float = 0.0
    _started: float = field(default_factory=time.monotonic)

    def total_s(self) -> float:
        return self.earlier_s + time.monotonic() - self._started

    def remaining_s(self) -> float:
        return max(self.limit_s - self.total_s(), 0)

    def is_expired(self) -> bool:
        return self.total_s() >= self.limit_s

    def timeout(self) -> asyncio.Timeout:
        return asyncio.timeout(self.remaining_s())
