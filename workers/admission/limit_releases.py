"""Releases of held runs by the scheduler, in addition to those by workers.

A worker that has finished a run releases the next one itself. The scheduler releases the rest: runs of a dead worker's
limits, of a cap that was raised or removed, and of a rate that has new starts. One query finds the limits that hold any
run; the runs behind each limit are never counted.

Any number of schedulers may run: a run that one has released is not found by the others. If two of them release too
many runs at the same moment, workers give the surplus back.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from accounting.infra.aio import gather_all
from workers.admission.cap_settings import Caps
from workers.admission.limits.all_limits import AllLimits
from workers.admission.limits.budget_limit import BudgetLimit
from workers.admission.release_policy import rotate_after
from workers.store.held_runs import HeldRuns
from workers.store.limit_name import LimitKind, LimitName
from workers.store.run import HoldKind
from workers.store.run_store import RunStore
from workers.wakeup_sender import WakeupSender

log = logging.getLogger(__name__)

MAX_RELEASED = 500
# Each limit costs two counts. With more limits than this, a pass continues after those of the last pass.
MAX_LIMITS = 200
MAX_CONCURRENT = 50
RELEASED_HERE = frozenset({LimitKind.APP, LimitKind.WORKFLOW, LimitKind.RATE})


class LimitReleases:
    def __init__(
        self,
        store: RunStore,
        caps: Caps,
        wakeups: WakeupSender,
        *,
        limits: AllLimits | None = None,
        max_limits: int = MAX_LIMITS,
    ) -> None:
        self._wakeups = wakeups
        self._held = HeldRuns(store)
        self._limits = limits or AllLimits(caps, store)
        self._max_limits = max_limits
        self._last_app: dict[LimitName, str] = {}  # for each limit that holds a run
        self._last_limit = ""

    async def run_pass(self) -> Mapping[str, int]:
        """Releases at most `MAX_RELEASED` runs; returns how many, by the kind of their hold."""
        waiting = {str(limit): limit for limit in await self._held.list_limits() if limit.kind in RELEASED_HERE}
        self._last_app = {limit: app for limit, app in self._last_app.items() if str(limit) in waiting}
        counts: Counter[str] = Counter()
        in_turn = rotate_after(waiting, self._last_limit)[: self._max_limits]
        for names in _chunks(in_turn, MAX_CONCURRENT):
            limits = [waiting[name] for name in names]
            rooms = await gather_all(self._limits.has_room(limit) for limit in limits)
            for limit, room in zip(limits, rooms, strict=True):
                left = MAX_RELEASED - counts.total()
                if left <= 0:
                    return counts
                counts[limit.hold_kind.value] += await release_and_wake(
                    self._limits, limit, min(room, left), last_app=self._last_app, wakeups=self._wakeups
                )
                self._last_limit = str(limit)
        return +counts


class BudgetReleases:
    """Releases runs held by a budget. Budgets are looked up together, and their room is in money."""

    def __init__(
        self, store: RunStore, wakeups: WakeupSender, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._held = HeldRuns(store)
        self._budgets = BudgetLimit(store, self._held, clock=clock)
        self._wakeups = wakeups
        self._last_app: dict[LimitName, str] = {}

    async def run_pass(self, counts: Counter[str]) -> None:
        limits = await self._held.limits_of(LimitKind.BUDGET)
        self._last_app = {limit: app for limit, app in self._last_app.items() if limit in limits}
        await self._budgets.refresh(limits)
        left = MAX_RELEASED
        for limit in limits:
            room = min(await self._budgets.has_room(limit), left)
            released = await release_and_wake(
                self._budgets, limit, room, last_app=self._last_app, wakeups=self._wakeups
            )
            counts[HoldKind.BUDGET.value] += released
            left -= released


async def release_and_wake(
    limits: AllLimits | BudgetLimit,
    limit: LimitName,
    count: int,
    *,
    last_app: dict[LimitName, str],
    wakeups: WakeupSender,
) -> int:
    """Releases at most `count` runs and sends their wake-ups; returns how many this process has released.

    `last_app` keeps the turn of the apps between passes.
    """
    if count <= 0:
        return 0
    released = await limits.release(limit, count=count, after=last_app.get(limit, ""))
    last_app[limit] = released.last_app
    for run_id in released.run_ids:
        wakeups.send(run_id)
    if released.count:
        log.info("runs_released", extra={"by": str(limit), "count": released.count})
    return released.count


def _chunks(names: list[str], size: int) -> list[list[str]]:
    return [names[start : start + size] for start in range(0, len(names), size)]
