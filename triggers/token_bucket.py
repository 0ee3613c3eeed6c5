"""Token buckets: how often somebody may call, by name, in a memory that does not grow without end."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

MAX_NAMES = 10_000


@dataclass(frozen=True, slots=True)
class RateDecision:
    """`wait_s`: until the next call may come; 0 when this one may. `full_in_s`: until nothing is used any more."""

    is_allowed: bool
    remaining: int
    wait_s: float
    full_in_s: float


class TokenBuckets:
    """Each process has its own: of two gateways, each lets the whole rate in."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, max_names: int = MAX_NAMES) -> None:
        self._clock = clock
        self._max_names = max_names
        self._used: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens used, and when that was

    def try_acquire(self, name: str, *, per_s: float, burst: int) -> RateDecision:
        """One call: `burst` at once, then `per_s` in each second. The name that called longest ago is forgotten."""
        used = self._used_now(name, per_s)
        allowed = used + 1 <= burst
        used += allowed
        self._used[name] = used, self._clock()
        self._used.move_to_end(name)
        while len(self._used) > self._max_names:
            self._used.popitem(last=False)
        wait_s = 0.0 if allowed else (used + 1 - burst) / per_s
        return RateDecision(allowed, max(int(burst - used), 0), wait_s, used / per_s)

    def _used_now(self, name: str, per_s: float) -> float:
        used, at = self._used.get(name, (0.0, 0.0))
        return max(used - (self._clock() - at) * per_s, 0.0)
