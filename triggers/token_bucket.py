"""Token buckets: rate limits by name, in a memory of bounded size."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from triggers.bounded_cache import BoundedCache

MAX_NAMES = 10_000


@dataclass(frozen=True, slots=True)
class TokenRate:
    """`burst` calls at once, refilled by `per_s` each second."""

    per_s: float
    burst: int


@dataclass(frozen=True, slots=True)
class RateDecision:
    """The result of one call.

    `wait_s`: until the next call is allowed; 0 for an allowed one. `full_in_s`: until the bucket is full again.
    """

    is_allowed: bool
    remaining: int
    wait_s: float
    full_in_s: float


class TokenBuckets:
    """Limits within one process: two gateways together allow twice the rate."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, max_names: int = MAX_NAMES) -> None:
        self._clock = clock
        # Tokens used, and the time of that count. The name that called longest ago is dropped when it is full.
        self._used: BoundedCache[tuple[float, float]] = BoundedCache(max_names)

    def try_acquire(self, name: str, *, per_s: float, burst: int) -> RateDecision:
        """Takes a token if one is left: `burst` at once, refilled by `per_s` each second."""
        used = self._current_use(name, per_s)
        allowed = used + 1 <= burst
        used += allowed
        self._used.put(name, (used, self._clock()))
        wait_s = 0.0 if allowed else (used + 1 - burst) / per_s
        return RateDecision(allowed, max(int(burst - used), 0), wait_s, used / per_s)

    def _current_use(self, name: str, per_s: float) -> float:
        used, at = self._used.get(name) or (0.0, 0.0)
        return max(used - (self._clock() - at) * per_s, 0.0)
