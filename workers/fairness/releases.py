"""Releases: the scheduler's part of letting held runs go, beside its ticks.

A worker that is done with a run lets the next one go itself. What remains is for here: its worker died, a cap was
raised or removed, time has given a rate new starts. One look tells which limits hold anybody back; how many runs
wait behind each is never counted.

Any number may do this: what one has released, the others do not find. What two that look at the same moment release
too many, their workers give back.
"""

import logging
from collections import Counter
from collections.abc import Mapping

from accounting.infra.aio import gather_all
from workers.fairness.caps import Caps
from workers.fairness.held import HeldRuns
from workers.fairness.letting_go import LettingGo, round_from
from workers.fairness.rates import Rates
from workers.store.run import HoldKind
from workers.store.run_store import RunStore
from workers.wakeup_sender import WakeupSender

log = logging.getLogger(__name__)

MAX_RELEASED = 500
# Each limit costs two counts: with more of them than this, a pass takes those that the last one did not reach.
MAX_LIMITS = 200
AT_ONCE = 50
_KINDS = {"app": HoldKind.CONCURRENCY, "workflow": HoldKind.CONCURRENCY, "rate": HoldKind.RATE}


class Releases:
    def __init__(self, store: RunStore, caps: Caps, wakeups: WakeupSender) -> None:
        self._wakeups = wakeups
        self._held = HeldRuns(store)
        self._letting_go = LettingGo(caps, self._held, Rates(store.database))
        self._last_app: dict[str, str] = {}  # of each limit that holds somebody back
        self._last_limit = ""

    async def run_pass(self) -> Mapping[str, int]:
        """How many runs were released, by the kind of their hold; at most `MAX_RELEASED` of each pass."""
        waiting = [limit for limit in await self._held.limits() if kind_of(limit) is not None]
        self._last_app = {limit: app for limit, app in self._last_app.items() if limit in waiting}
        counts: Counter[str] = Counter()
        looked_at = round_from(waiting, self._last_limit)[:MAX_LIMITS]
        for some in _slices(looked_at, AT_ONCE):
            rooms = await gather_all(self._letting_go.room(limit) for limit in some)
            for limit, room in zip(some, rooms, strict=True):
                left = MAX_RELEASED - counts.total()
                if left <= 0:
                    return counts
                counts[str(kind_of(limit))] += await self._release(limit, min(room, left))
                self._last_limit = limit
        return +counts

    async def _release(self, limit: str, most: int) -> int:
        if most <= 0:
            return 0
        run_ids, last = await self._letting_go.let_go(limit, most=most, after=self._last_app.get(limit, ""))
        self._last_app[limit] = last
        for run_id in run_ids:
            self._wakeups.send(run_id)
        if run_ids:
            log.info("runs_released", extra={"by": limit, "count": len(run_ids)})
        return len(run_ids)


def kind_of(limit: str) -> HoldKind | None:
    """None for what others hold, and release."""
    return _KINDS.get(limit.partition(":")[0])


def _slices(names: list[str], size: int) -> list[list[str]]:
    return [names[start : start + size] for start in range(0, len(names), size)]
