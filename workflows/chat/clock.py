"""The wall clock of a run: it runs while somebody works on it. Waiting for a retry or a worker is not its doing."""

import asyncio
import time
from dataclasses import dataclass, field

OUT_OF_TIME = "the run's wall-clock limit is reached"


@dataclass(frozen=True, slots=True)
class WorkedTime:
    limit_s: float
    earlier_s: float = 0.0
    _began: float = field(default_factory=time.monotonic)

    def total_s(self) -> float:
        return self.earlier_s + time.monotonic() - self._began

    def left_s(self) -> float:
        return max(self.limit_s - self.total_s(), 0)

    def is_over(self) -> bool:
        return self.total_s() >= self.limit_s

    def limit(self) -> asyncio.Timeout:
        return asyncio.timeout(self.left_s())
